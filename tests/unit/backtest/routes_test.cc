// Ways to an alert of a severity.
#include "daemon/backtest/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/status_matchers.h"

namespace foreshock::backtest {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Rules a to f, and the signatures given.
std::vector<std::string> Routes(absl::string_view severity, absl::string_view signatures,
                                absl::string_view severity_of_f = "info") {
  std::string text = "groups:\n  - name: g\n    rules:\n";
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    absl::StrAppend(&text, "      - {alert: ", name,
                    ", indicator: train.loss, threshold: {above: 1}, labels: {severity: ",
                    *name == 'f' ? severity_of_f : "info", "}}\n");
  }
  absl::StrAppend(&text, "signatures:\n", signatures);
  const auto rules = rules::ParseRules("test.yaml", text);
  EXPECT_TRUE(rules.ok()) << rules.status();
  const auto& set = dynamic_cast<const rules::CompiledRules&>(**rules);
  std::vector<std::string> routes;
  for (const Route& route : RoutesTo(severity, set)) {
    routes.push_back(absl::StrJoin(route, "", [&set](std::string* out, size_t rule) {
      absl::StrAppend(out, set.rules[rule]->name);
    }));
  }
  return routes;
}

std::string Signature(absl::string_view name, absl::string_view when, absl::string_view severity,
                      absl::string_view more = "") {
  return absl::StrCat("  - signature: ", name, "\n    when: ", when,
                      "\n    labels: {severity: ", severity, ", fault: x}\n", more);
}

TEST(RoutesTest, ARuleOfTheSeverityIsOne) {
  EXPECT_THAT(Routes("critical", "  []\n", "critical"), ElementsAre("f"));
  EXPECT_THAT(Routes("critical", "  []\n", "warning"), IsEmpty());
  EXPECT_THAT(Routes("warning", "  []\n", "critical"), ElementsAre("f"));
}

TEST(RoutesTest, ConditionsBecomeTheirWays) {
  EXPECT_THAT(Routes("critical", Signature("s", "{all: [a, {any: [b, c]}]}", "critical")),
              ElementsAre("ab", "ac"));
  EXPECT_THAT(Routes("critical", Signature("s", "{at_least: 2, of: [a, b, c]}", "critical")),
              ElementsAre("ab", "ac", "bc"));
  EXPECT_THAT(Routes("critical", Signature("s", "{same_layer: [a, b]}", "critical")),
              ElementsAre("ab"));
  EXPECT_THAT(Routes("critical", Signature("s", "{healed: a, within: 3 steps}", "critical")),
              ElementsAre("a"));
}

TEST(RoutesTest, AConfirmationNeedsBoth) {
  const std::string confirmed = Signature("s", "{any: [a, b]}", "warning",
                                          "    confirmations: [{when: c, severity: critical}]\n");
  EXPECT_THAT(Routes("critical", confirmed), ElementsAre("ac", "bc"));
  EXPECT_THAT(Routes("warning", confirmed), ElementsAre("a", "b"));
}

TEST(RoutesTest, ASignatureStandsForItsOwnWays) {
  EXPECT_THAT(Routes("critical", Signature("s", "{any: [a, b]}", "info") +
                                     Signature("t", "{all: [s, c]}", "critical")),
              ElementsAre("ac", "bc"));
}

TEST(RoutesTest, AWayThatContainsAnotherIsLeftOut) {
  EXPECT_THAT(Routes("critical",
                     Signature("s", "a", "critical") + Signature("t", "{all: [a, b]}", "critical")),
              ElementsAre("a"));
}

TEST(RoutesTest, TooManyWaysMakeEachRuleEnough) {
  // 6 ways to the power of 6.
  std::string all = "{any: [a, b, c, d, e, {all: [a, f]}]}";
  std::string when = absl::StrCat("{all: [", all);
  for (int i = 0; i < 5; ++i) absl::StrAppend(&when, ", ", all);
  EXPECT_THAT(Routes("critical", Signature("s", absl::StrCat(when, "]}"), "critical")),
              ElementsAre("a", "b", "c", "d", "e"))
      << "these simplify on the way";
}

}  // namespace
}  // namespace foreshock::backtest
