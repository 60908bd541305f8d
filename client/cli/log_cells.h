// Cells of a row, as the log has them, become a LogRow: which one is the step, which the time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/log_reader.h"

namespace foreshock::cli {

struct LogCell {
  enum class Kind { kNumber, kText, kNone };
  std::string column;
  Kind kind = Kind::kNone;  // kNone: no value in this row
  double number = 0;
  std::string text;  // kText
  std::string why;   // kText: why it is no value; empty: it is text
  size_t byte = 0;   // of the line, from 0
};

// Text that is a number, "1.5e-4", "nan", "-inf", or else text; kNone if it is blank.
LogCell CellOfText(std::string column, absl::string_view text, size_t byte);

// Holds the columns of step and time, which are the same in all rows of a file.
class LogColumns {
 public:
  LogColumns(const LogOptions& options, LogNotes* notes)
      : step_(options.step_key), time_(options.time_key), notes_(*notes) {}

  // Looks for the step's column among `columns` if there is none yet. InvalidArgument with what
  // there is and what is allowed.
  absl::Status FindStep(const std::vector<std::string>& columns);

  // Everything of `row` but `where`. Errors: InvalidArgument if the step is none; `*byte` is then
  // its place.
  absl::Status Fill(const std::vector<LogCell>& cells, LogRow* row, size_t* byte);

 private:
  std::string step_;
  std::string time_;
  LogNotes& notes_;
};

// Values and skipped steps alone.
void FillValues(const std::vector<LogCell>& cells, LogRow* row, LogNotes* notes);

// Whether the column has one of the usual names of the step.
bool IsStepName(absl::string_view column);

}  // namespace foreshock::cli
