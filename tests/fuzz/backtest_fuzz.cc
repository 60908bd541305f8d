// Any bytes as the labels of runs, as the values of a series and as a test of rules: something that
// can be used, or an error that says what is wrong.

#include <cstdint>
#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "daemon/backtest/labels.h"
#include "daemon/backtest/rule_test.h"
#include "daemon/backtest/series_notation.h"
#include "daemon/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto labels = backtest::ParseLabels("f", text);
  FORESHOCK_CHECK(labels.ok() || labels.status().message().substr(0, 2) == "f:");
  const auto values = backtest::ParseSeriesValues(text);
  FORESHOCK_CHECK(values.ok() ? values->size() <= backtest::kSeriesValuesMax
                              : !values.status().message().empty());
  // Without the name of a rule file: one that is not there would end the reading before the tests.
  const auto test = backtest::ParseRuleTests(
      "f", absl::StrReplaceAll(text, {{"rule_files", "no_files"}}), "/nowhere/");
  FORESHOCK_CHECK(test.ok() || !test.status().message().empty());
  return 0;
}
