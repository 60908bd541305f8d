#include "daemon/backtest/series_notation.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/status_macros.h"

namespace foreshock::backtest {
namespace {

constexpr absl::string_view kAllowed =
    "allowed are 0.8, 0.8x40, 0.8+0.01x20, 0.8-0.01x20, _, _x5, NaN, Inf, -Inf, NaNx3 and "
    "(1 2)x9; xN means N more";

absl::Status TooMany() {
  return absl::InvalidArgumentError(
      absl::StrCat("more than ", kSeriesValuesMax, " values in one series"));
}

class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<SeriesValue>> Read() {
    std::vector<SeriesValue> values;
    while (true) {
      Skip();
      if (text_.empty()) return values;
      FORESHOCK_RETURN_IF_ERROR(ReadItem(&values));
    }
  }

 private:
  void Skip() { text_ = absl::StripLeadingAsciiWhitespace(text_); }

  absl::Status Bad(absl::string_view word, absl::string_view what) const {
    const absl::string_view shown = word.substr(0, word.find_first_of(" \t\r\n"));
    return absl::InvalidArgumentError(
        absl::StrCat("\"", shown.substr(0, 40), "\" ", what, "; ", kAllowed));
  }

  absl::Status ReadItem(std::vector<SeriesValue>* values) {
    const absl::string_view word = text_;
    if (absl::ConsumePrefix(&text_, "(")) return ReadGroup(word, values);
    if (absl::ConsumePrefix(&text_, "_")) {
      FORESHOCK_ASSIGN_OR_RETURN(const std::optional<uint64_t> count, Times(word));
      FORESHOCK_RETURN_IF_ERROR(AtEnd(word));
      return Append(SeriesValue(), count.value_or(1), values);
    }
    if (const std::optional<double> special = NonFinite()) {
      FORESHOCK_ASSIGN_OR_RETURN(const std::optional<uint64_t> more, Times(word));
      FORESHOCK_RETURN_IF_ERROR(AtEnd(word));
      return Append(*special, more.value_or(0) + 1, values);
    }
    const std::optional<double> first = Number();
    if (!first.has_value()) return Bad(word, "is no value");
    double by = 0;
    const bool moves = !text_.empty() && (text_[0] == '+' || text_[0] == '-');
    if (moves) {
      const bool down = text_[0] == '-';
      text_.remove_prefix(1);
      const std::optional<double> difference = Number();
      if (!difference.has_value()) return Bad(word, "has no number behind its sign");
      by = down ? -*difference : *difference;
    }
    FORESHOCK_ASSIGN_OR_RETURN(const std::optional<uint64_t> more, Times(word));
    if (moves && !more.has_value()) return Bad(word, "does not say how often");
    FORESHOCK_RETURN_IF_ERROR(AtEnd(word));
    if (values->size() + more.value_or(0) + 1 > kSeriesValuesMax) return TooMany();
    for (uint64_t i = 0; i <= more.value_or(0); ++i) {
      values->push_back(*first + static_cast<double>(i) * by);
    }
    return absl::OkStatus();
  }

  absl::Status ReadGroup(absl::string_view word, std::vector<SeriesValue>* values) {
    std::vector<SeriesValue> group;
    while (true) {
      Skip();
      if (text_.empty()) return Bad(word, "opens a group that does not end");
      if (absl::ConsumePrefix(&text_, ")")) break;
      if (text_[0] == '(') return Bad(word, "holds a group inside a group");
      FORESHOCK_RETURN_IF_ERROR(ReadItem(&group));
    }
    FORESHOCK_ASSIGN_OR_RETURN(const std::optional<uint64_t> more, Times(word));
    FORESHOCK_RETURN_IF_ERROR(AtEnd(word));
    const uint64_t times = more.value_or(0) + 1;
    if (group.empty()) return Bad(word, "is an empty group");
    if (values->size() + group.size() * times > kSeriesValuesMax) return TooMany();
    for (uint64_t i = 0; i < times; ++i) {
      values->insert(values->end(), group.begin(), group.end());
    }
    return absl::OkStatus();
  }

  static absl::Status Append(SeriesValue value, uint64_t count, std::vector<SeriesValue>* values) {
    if (values->size() + count > kSeriesValuesMax) return TooMany();
    values->insert(values->end(), count, value);
    return absl::OkStatus();
  }

  std::optional<double> NonFinite() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (absl::ConsumePrefix(&text_, "NaN")) return std::numeric_limits<double>::quiet_NaN();
    if (absl::ConsumePrefix(&text_, "+Inf") || absl::ConsumePrefix(&text_, "Inf")) return kInf;
    if (absl::ConsumePrefix(&text_, "-Inf")) return -kInf;
    return std::nullopt;
  }

  // A decimal number at the front, taken as far as it goes: of "1e-3-2x4" that is 1e-3.
  std::optional<double> Number() {
    size_t i = 0;
    const auto digits = [this, &i] {
      const size_t before = i;
      while (i < text_.size() && absl::ascii_isdigit(text_[i])) ++i;
      return i > before;
    };
    if (i < text_.size() && (text_[i] == '+' || text_[i] == '-')) ++i;
    bool any = digits();
    if (i < text_.size() && text_[i] == '.') {
      ++i;
      any = digits() || any;
    }
    if (!any) return std::nullopt;
    if (i < text_.size() && (text_[i] == 'e' || text_[i] == 'E')) {
      const size_t mantissa = i++;
      if (i < text_.size() && (text_[i] == '+' || text_[i] == '-')) ++i;
      if (!digits()) i = mantissa;
    }
    double number = 0;
    if (!absl::SimpleAtod(absl::StripPrefix(text_.substr(0, i), "+"), &number)) return std::nullopt;
    text_.remove_prefix(i);
    return number;
  }

  // "xN"; nullopt without one.
  absl::StatusOr<std::optional<uint64_t>> Times(absl::string_view word) {
    if (!absl::ConsumePrefix(&text_, "x")) return std::optional<uint64_t>();
    size_t digits = 0;
    while (digits < text_.size() && absl::ascii_isdigit(text_[digits])) ++digits;
    uint64_t count = 0;
    if (!absl::SimpleAtoi(text_.substr(0, digits), &count)) {
      return Bad(word, "has no count behind its x");
    }
    if (count > kSeriesValuesMax) return TooMany();
    text_.remove_prefix(digits);
    return std::optional<uint64_t>(count);
  }

  absl::Status AtEnd(absl::string_view word) const {
    if (text_.empty() || absl::ascii_isspace(text_[0]) || text_[0] == ')') return absl::OkStatus();
    return Bad(word, "cannot be read to its end");
  }

  absl::string_view text_;
};

}  // namespace

absl::StatusOr<std::vector<SeriesValue>> ParseSeriesValues(absl::string_view text) {
  return Reader(text).Read();
}

}  // namespace foreshock::backtest
