#include "daemon/backtest/labels.h"

#include "tests/support/status_matchers.h"

namespace foreshock::backtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Labels, ReadsJsonAndYaml) {
  const char* const kTexts[] = {
      R"({"about": "two runs", "runs": [
        {"name": "good", "split": "check", "expected": "quiet", "fault": null,
         "injection_step": null, "divergence_step": null, "note": ""},
        {"name": "bad", "expected": "alarm", "fault": "combined", "injection_step": 400,
         "divergence_step": 570}]})",
      "runs:\n"
      "  - {name: good, split: check, expected: quiet, divergence_step: null}\n"
      "  - {name: bad, expected: alarm, fault: combined, injection_step: 400, "
      "divergence_step: 570}\n",
  };
  for (const char* text : kTexts) {
    const auto labels = ParseLabels("index.json", text);
    ASSERT_OK(labels);
    const RunLabel& good = labels->at("good");
    EXPECT_EQ(good.expected, RunLabel::Expected::kQuiet);
    EXPECT_EQ(good.split, "check");
    EXPECT_EQ(good.fault, "");
    EXPECT_TRUE(good.divergence_known);
    EXPECT_EQ(good.divergence_step, std::nullopt);
    const RunLabel& bad = labels->at("bad");
    EXPECT_EQ(bad.place, 1u);
    EXPECT_EQ(bad.expected, RunLabel::Expected::kAlarm);
    EXPECT_EQ(bad.split, "all");
    EXPECT_EQ(bad.fault, "combined");
    EXPECT_EQ(bad.injection_step, 400);
    EXPECT_EQ(bad.divergence_step, 570);
  }
}

TEST(Labels, KeepsHarmAndLayersAndNamesTheKeysThatItDoesNotKnow) {
  const auto labels = ParseLabels(
      "index.json",
      R"({"runs": [{"name": "a", "expected": "warn", "injection_step": 200, "harm_step": 243,
          "layers": [7, 2], "setting": "gpt2", "seed": 1},
         {"name": "b", "expected": "quiet", "harm_step": null, "layers": null}]})");
  ASSERT_OK(labels);
  const RunLabel& a = labels->at("a");
  EXPECT_EQ(a.expected, RunLabel::Expected::kWarn);
  EXPECT_EQ(a.harm_step, 243);
  EXPECT_THAT(a.layers, ElementsAre(2u, 7u));
  EXPECT_THAT(a.ignored, ElementsAre("setting", "seed"));
  const RunLabel& b = labels->at("b");
  EXPECT_EQ(b.harm_step, std::nullopt);
  EXPECT_TRUE(b.layers.empty());
  EXPECT_TRUE(b.ignored.empty());
}

TEST(Labels, SaysWhereItIsWrong) {
  const struct {
    const char* text;
    const char* error;
  } kCases[] = {
      {"{}", "i.json:1:1: the key `runs` is missing"},
      {"runs:\n  - {expected: quiet}", "i.json:2:5: the key `name` is missing"},
      {"runs:\n  - {name: a, expected: loud}",
       "i.json:2:25: `expected` is loud; one of quiet, alarm, warn, unscored is expected"},
      {"runs:\n  - {name: a, expected: alarm}", "`expected: alarm` needs an `injection_step`"},
      {"runs:\n  - {name: a, expected: warn}", "`expected: warn` needs an `injection_step`"},
      {"runs:\n  - {name: a, expected: quiet, layers: 3}", "`layers` is 3; a list"},
      {"runs:\n  - {name: a, expected: quiet, injection_step: 3}",
       "`injection_step` must be null or absent"},
      {"runs:\n  - {name: a, expected: quiet, injection_step: soon}",
       "i.json:2:48: `injection_step` is soon; an integer"},
      {"runs:\n  - {name: a, expected: quiet}\n  - {name: a, expected: quiet}",
       "i.json:3:12: the run a is there twice"},
      {"run: []", "unknown key `run`"},
      {"runs: [", "not valid YAML"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(ParseLabels("i.json", c.text),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)))
        << c.text;
  }
  EXPECT_THAT(ReadLabels("/nowhere/index.json"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/index.json")));
}

}  // namespace
}  // namespace foreshock::backtest
