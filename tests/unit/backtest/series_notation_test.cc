#include "daemon/backtest/series_notation.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/status_matchers.h"

namespace foreshock::backtest {
namespace {

using ::testing::HasSubstr;

// "0.8 _ NaN"; the reason where it cannot be read.
std::string Read(const std::string& text) {
  const auto values = ParseSeriesValues(text);
  if (!values.ok()) return std::string(values.status().message());
  return absl::StrJoin(*values, " ", [](std::string* out, const SeriesValue& value) {
    if (!value.has_value()) {
      *out += "_";
    } else if (std::isnan(*value)) {
      *out += "NaN";
    } else {
      absl::StrAppend(out, std::round(*value * 1e6) / 1e6);
    }
  });
}

TEST(SeriesNotation, ReadsEveryForm) {
  const struct {
    const char* text;
    const char* values;
  } kCases[] = {
      {"", ""},
      {"  0.8 \n 1 ", "0.8 1"},
      {"0.8x2", "0.8 0.8 0.8"},
      {"7x0", "7"},
      {"1+2x3", "1 3 5 7"},
      {"0.8-0.1x2", "0.8 0.7 0.6"},
      {"-1-1x1", "-1 -2"},
      {"-1+-1x1", "-1 -2"},
      {"1e-3x1", "0.001 0.001"},
      {"1e-3-1e-4x1", "0.001 0.0009"},
      {".5 +.5", "0.5 0.5"},
      {"_ _x2 1", "_ _ _ 1"},
      {"_x0", ""},
      {"NaN NaNx1", "NaN NaN NaN"},
      {"Inf -Infx1", "inf -inf -inf"},
      {"(1 2)x2", "1 2 1 2 1 2"},
      {"(1x1 _)", "1 1 _"},
      {"( 1 NaN )x1 3", "1 NaN 1 NaN 3"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Read(c.text), c.values) << c.text;
}

TEST(SeriesNotation, SaysWhatItCannotRead) {
  const struct {
    const char* text;
    const char* reason;
  } kCases[] = {
      {"0.8 abc 1", "\"abc\" is no value; allowed are"},
      {"0.8y40", "\"0.8y40\" cannot be read to its end"},
      {"1+2", "\"1+2\" does not say how often"},
      {"1+x3", "\"1+x3\" has no number behind its sign"},
      {"1x", "\"1x\" has no count behind its x"},
      {"1x-1", "\"1x-1\" has no count behind its x"},
      {"(1 2", "\"(1\" opens a group that does not end"},
      {"((1)x2)", "holds a group inside a group"},
      {"()x3", "is an empty group"},
      {"1 )", "\")\" is no value"},
      {"1x2000000", "more than 1000000 values in one series"},
      {"_x600000 _x600000", "more than 1000000 values in one series"},
      {"(1 2 3)x400000", "more than 1000000 values in one series"},
      {"nan", "\"nan\" is no value"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(ParseSeriesValues(c.text),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.reason)))
        << c.text;
  }
}

TEST(SeriesNotation, SurvivesTruncationAtEveryByte) {
  const std::string text = "1e-3-2e-4x10 (0.5 _x2 NaNx1)x3 -Inf +Inf 7x9";
  for (size_t length = 0; length <= text.size(); ++length) {
    const auto values = ParseSeriesValues(text.substr(0, length));
    if (values.ok()) continue;
    EXPECT_THAT(values.status().message(), HasSubstr("allowed are"));
  }
}

}  // namespace
}  // namespace foreshock::backtest
