#include "client/cli/export_rows.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/format.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

std::string CsvField(absl::string_view text) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) return std::string(text);
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string ShortestText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

std::string FlagWords(const v1::Point& point) {
  return absl::StrReplaceAll(FormatFlags(point.flags()), {{", ", "|"}});
}

void AppendCsv(const v1::QueryPointsResponse& answer, std::string* out) {
  const v1::Series& series = answer.series();
  const std::string run = CsvField(series.run());
  const std::string key = absl::StrCat(
      CsvField(series.indicator()), ",", series.has_layer() ? absl::StrCat(series.layer()) : "",
      ",", UnitName(series.unit()), ",", series.unit_id(), ",", CsvField(series.unit_name()));
  for (const v1::Point& point : answer.points()) {
    absl::StrAppend(out, run, ",", point.attempt(), ",", point.step(), ",", key, ",",
                    ShortestText(point.value()), ",", FlagWords(point), "\n");
  }
}

void AppendJsonl(const v1::QueryPointsResponse& answer, std::string* out) {
  const v1::Series& series = answer.series();
  nlohmann::ordered_json row = {
      {"run", series.run()}, {"attempt", 0}, {"step", 0}, {"indicator", series.indicator()}};
  if (series.has_layer()) row["layer"] = series.layer();
  row["unit"] = UnitName(series.unit());
  row["unit_id"] = series.unit_id();
  row["unit_name"] = series.unit_name();
  for (const v1::Point& point : answer.points()) {
    row["attempt"] = point.attempt();
    row["step"] = point.step();
    row["value"] = point.value();
    row["flags"] = FlagWords(point);
    absl::StrAppend(out, row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
                    "\n");
  }
}

}  // namespace

absl::string_view ExportHeader(ExportFormat format) {
  return format == ExportFormat::kCsv
             ? "run,attempt,step,indicator,layer,unit,unit_id,unit_name,value,flags\n"
             : "";
}

void AppendRows(const v1::QueryPointsResponse& answer, ExportFormat format, std::string* out) {
  if (format == ExportFormat::kCsv) {
    AppendCsv(answer, out);
  } else {
    AppendJsonl(answer, out);
  }
}

}  // namespace foreshock::cli
