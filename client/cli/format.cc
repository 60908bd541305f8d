#include "client/cli/format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace foreshock::cli {
namespace {

std::string WithoutPrefix(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

}  // namespace

std::string FormatValue(double value) {
  if (std::abs(value) < 9e15 && value == std::trunc(value)) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  const double size = std::abs(value);
  if (size >= 1e5 || size < 1e-3) return absl::StrFormat("%.3e", value);
  const int digits_before_point = std::max(1, static_cast<int>(std::floor(std::log10(size))) + 1);
  return absl::StrFormat("%.*f", std::max(0, (size < 1 ? 4 : 4 - digits_before_point)), value);
}

std::string FormatCount(uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, 1, ' ');
  return digits;
}

std::string ShortDuration(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 10) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 120) return absl::StrFormat("%.0f s", seconds);
  const int64_t minutes = static_cast<int64_t>(seconds / 60);
  if (minutes < 120) return absl::StrCat(minutes, " min");
  const int64_t hours = minutes / 60;
  if (hours < 48) return absl::StrCat(hours, " h ", minutes % 60, " min");
  return absl::StrCat(hours / 24, " d ", hours % 24, " h");
}

std::string LocalTime(int64_t unix_ns) {
  if (unix_ns == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixNanos(unix_ns), absl::LocalTimeZone());
}

std::string FormatRanges(const std::set<uint64_t>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const uint64_t first = *at;
    uint64_t last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    absl::StrAppend(&text, text.empty() ? "" : " ", first);
    if (last > first) absl::StrAppend(&text, last == first + 1 ? " " : "-", last);
  }
  return text;
}

std::string FormatWhere(const v1::Series& series) {
  std::string where;
  if (series.has_layer()) where = absl::StrCat("layer ", series.layer());
  const absl::string_view comma = where.empty() ? "" : ", ";
  switch (series.unit()) {
    case v1::UNIT_HEAD:
    case v1::UNIT_EXPERT:
    case v1::UNIT_PROJECTION:
    case v1::UNIT_RANK:
      absl::StrAppend(&where, comma, UnitName(series.unit()), " ", series.unit_id());
      break;
    case v1::UNIT_TENSOR:
      absl::StrAppend(&where, comma, "tensor ", series.unit_name());
      break;
    default:
      break;
  }
  return where.empty() ? "whole run" : where;
}

std::string FormatWhere(const v1::Alert& alert) {
  std::vector<std::string> parts;
  if (alert.all_layers()) {
    parts.push_back("all layers");
  } else if (alert.layers_size() > 0) {
    parts.push_back(absl::StrCat(alert.layers_size() == 1 ? "layer " : "layers ",
                                 absl::StrJoin(alert.layers(), ", ")));
  }
  if (alert.has_head()) parts.push_back(absl::StrCat("head ", alert.head()));
  if (alert.has_rank()) parts.push_back(absl::StrCat("rank ", alert.rank()));
  if (!alert.unit_name().empty()) parts.push_back(alert.unit_name());
  return parts.empty() ? "whole run" : absl::StrJoin(parts, ", ");
}

std::string FormatJudged(const v1::Judged& judged) {
  if (!judged.has_from_step()) return "nothing yet";
  return absl::StrCat(judged.rules_judging(), " of ", Plural(judged.rules(), "rule"), ", ",
                      FormatCount(judged.rows()), " rows from step ", judged.from_step());
}

std::string FormatFlags(const google::protobuf::RepeatedField<int>& flags) {
  return absl::StrJoin(flags, ", ", [](std::string* out, int flag) {
    const auto value = static_cast<v1::QualityFlag>(flag);
    absl::StrAppend(out, v1::QualityFlag_IsValid(flag)
                             ? WithoutPrefix(v1::QualityFlag_Name(value), "QUALITY_FLAG_")
                             : absl::StrCat(flag));
  });
}

std::string StateName(v1::RunState state) {
  return WithoutPrefix(v1::RunState_Name(state), "RUN_STATE_");
}

std::string StateName(v1::AlertState state) {
  return WithoutPrefix(v1::AlertState_Name(state), "ALERT_STATE_");
}

std::string KindName(v1::EventKind kind) {
  return WithoutPrefix(v1::EventKind_Name(kind), "EVENT_KIND_");
}

std::string UnitName(v1::Unit unit) { return WithoutPrefix(v1::Unit_Name(unit), "UNIT_"); }

std::string Sparkline(const std::vector<double>& values, size_t columns) {
  if (values.empty() || columns == 0) return "";
  const char* const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t cells = std::min(columns, values.size());
  std::vector<double> means;
  for (size_t c = 0; c < cells; ++c) {
    const size_t begin = c * values.size() / cells;
    const size_t end = (c + 1) * values.size() / cells;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += values[i] / static_cast<double>(end - begin);
    means.push_back(sum);
  }
  const auto [least, greatest] = std::minmax_element(means.begin(), means.end());
  const double span = *greatest - *least;
  std::string line;
  for (const double mean : means) {
    const int level = span > 0 ? static_cast<int>((mean - *least) / span * 7.999) : 3;
    line += blocks[level];
  }
  return line;
}

std::string Plural(uint64_t count, absl::string_view noun) {
  return absl::StrCat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

}  // namespace foreshock::cli
