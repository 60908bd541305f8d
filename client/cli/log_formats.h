// The readers of the forms; LogReader::Open picks one.
#pragma once

#include <memory>

#include "client/cli/log_reader.h"

namespace foreshock::cli {

std::unique_ptr<LogReader> NewMegatronReader(LogLines lines, LogNotes* notes);
std::unique_ptr<LogReader> NewJsonlLogReader(LogLines lines, const LogOptions& options,
                                             LogNotes* notes);
// Reads the whole document. Errors: no JSON, no rows in it, longer than LogLines::kRestBytesMax.
absl::StatusOr<std::unique_ptr<LogReader>> NewJsonLogReader(LogLines lines,
                                                            const LogOptions& options,
                                                            LogNotes* notes);
// Reads the header. Errors: no header, no step column, a wrong quote.
absl::StatusOr<std::unique_ptr<LogReader>> NewCsvReader(LogLines lines, const LogOptions& options,
                                                        LogNotes* notes);

}  // namespace foreshock::cli
