// Stored points as lines of text: CSV (RFC 4180, with a header) or JSONL (an object a line).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

enum class ExportFormat { kCsv, kJsonl };

// The CSV's first line; "" for JSONL.
absl::string_view ExportHeader(ExportFormat format);

// A line per point: run, attempt, step, indicator, layer ("" or absent: none), unit, unit_id,
// unit_name, value, flags (words, '|' between them). A value is the shortest text that reads back
// as the same double.
void AppendRows(const v1::QueryPointsResponse& answer, ExportFormat format, std::string* out);

}  // namespace foreshock::cli
