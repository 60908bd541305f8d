#include "daemon/backtest/stored_backtest.h"

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/memory_store.h"
#include "tests/support/stored_run.h"
#include "tests/support/temp_dir.h"

namespace foreshock::backtest {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string RuleText(const std::string& detector, const std::string& name = "high") {
  return absl::StrCat("groups:\n- name: g\n  rules:\n  - alert: ", name,
                      "\n    indicator: train.loss\n    warm_up: judge\n    ", detector,
                      "\n    labels: {severity: warning}\n");
}

// The loss falls from 9 at step 0 by 1/16 a step; attempt 2 goes on from step 60.
class StoredBacktestTest : public ::testing::Test {
 protected:
  void SetUp() override { support::StoreRun("exp", 1, store_.get()); }

  absl::StatusOr<v1::BacktestRulesResponse> Run(const std::string& text) {
    v1::BacktestRulesRequest request;
    request.set_run(run_);
    v1::RuleFile* file = request.add_files();
    file->set_name("/etc/foreshock/own.yaml");
    file->set_text(text);
    return BacktestStoredRun(*store_, *in_force_, request, limits_, cancelled_);
  }

  std::unique_ptr<store::Store> store_ = support::NewMemoryStore();
  std::shared_ptr<const rules::RuleSet> in_force_ = *rules::ParseRules("none", "");
  BacktestLimits limits_;
  std::function<bool()> cancelled_ = [] { return false; };
  std::string run_ = "exp";
};

TEST_F(StoredBacktestTest, SaysWhatWouldHaveFired) {
  ASSERT_OK_AND_ASSIGN(const auto found, Run(RuleText("threshold: {above: 8.5}")));
  ASSERT_EQ(found.alerts_size(), 1);
  EXPECT_EQ(found.alerts(0).rule(), "high");
  EXPECT_EQ(found.alerts(0).severity(), "warning");
  EXPECT_EQ(found.alerts(0).state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(found.alerts(0).firing_step(), 0);
  EXPECT_EQ(found.alerts(0).resolved_step(), 8);
  EXPECT_EQ(found.alerts_total(), 1u);
  EXPECT_EQ(found.rules_size(), 1);
  EXPECT_EQ(found.rules(0).line(), 4u);
  EXPECT_EQ(found.steps(), 120u);
  EXPECT_EQ(found.steps_total(), 120u);
  EXPECT_EQ(found.last_step(), 79);
  EXPECT_EQ(found.stopped(), "");
  ASSERT_OK_AND_ASSIGN(const auto quiet, Run(RuleText("threshold: {above: 9.5}")));
  EXPECT_EQ(quiet.alerts_size(), 0);
}

TEST_F(StoredBacktestTest, EndsAtEachLimitAndSaysSo) {
  limits_.judged_max = 10;
  ASSERT_OK_AND_ASSIGN(auto found, Run(RuleText("threshold: {above: 8.5}")));
  EXPECT_EQ(found.steps(), 10u);
  EXPECT_EQ(found.steps_total(), 120u);
  EXPECT_EQ(found.last_step(), 9);
  EXPECT_EQ(found.stopped(), "the rules have judged 10 values");
  limits_ = {.time_max = absl::ZeroDuration()};
  ASSERT_OK_AND_ASSIGN(found, Run(RuleText("threshold: {above: 8.5}")));
  EXPECT_EQ(found.steps(), 1u);
  EXPECT_EQ(found.stopped(), "it took 0");
  limits_ = {.alerts_max = 1};
  ASSERT_OK_AND_ASSIGN(
      found, Run(absl::StrCat(RuleText("threshold: {above: 8.5}"), "- name: h\n  rules:\n",
                              "  - {alert: low, indicator: train.loss, warm_up: judge, ",
                              "threshold: {below: 5}, labels: {severity: info}}\n")));
  EXPECT_EQ(found.alerts_size(), 1);
  EXPECT_GT(found.alerts_total(), 1u);
  limits_ = {.subjects_max = 7};
  const std::string shares =
      "groups: [{name: g, rules: [{alert: s, indicator: load.share, threshold: {above: 1}, "
      "labels: {severity: info}}]}]";
  EXPECT_THAT(Run(shares), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                             AllOf(HasSubstr("8 series of this run"),
                                                   HasSubstr("at most 7 are allowed"))));
  limits_ = {.files_bytes_max = 100};
  EXPECT_THAT(
      Run(shares),
      support::StatusIs(absl::StatusCode::kInvalidArgument,
                        HasSubstr("bytes of rules in 1 files; at most 100 in 64 are allowed")));
  limits_ = {.files_max = 0};
  EXPECT_THAT(Run(shares),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(" in 1 files; at most 262144 in 0 are allowed")));
}

TEST_F(StoredBacktestTest, NobodyWaitsForACancelledOne) {
  int asked = 0;
  cancelled_ = [&asked] { return ++asked == 3; };
  EXPECT_THAT(Run(RuleText("threshold: {above: 8.5}")),
              support::StatusIs(absl::StatusCode::kCancelled, HasSubstr("nobody waits")));
  EXPECT_EQ(asked, 3);
}

TEST_F(StoredBacktestTest, RefusesWhatIsWrongWithItsPlace) {
  EXPECT_THAT(Run(RuleText("threshold: {obove: 8.5}")),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("/etc/foreshock/own.yaml:7:17: ")));
  for (const char* nothing : {"", "groups: []"}) {
    EXPECT_THAT(Run(nothing),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no rule")));
  }
  run_ = "other";
  EXPECT_THAT(Run(RuleText("threshold: {above: 1}")),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("exp")));
  run_ = "";
  EXPECT_THAT(Run(RuleText("threshold: {above: 1}")),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run: required")));
}

TEST_F(StoredBacktestTest, OpensNoFileButKnowsTheBandsInForce) {
  const support::TempDir directory;
  std::ofstream(directory.File("band.yaml"))
      << "version: 1\nalign: step\nseries: [{indicator: train.loss, points: [[0, 5, 0.5]]}]\n";
  const auto reference = [&](const std::string& file) {
    return RuleText(
        absl::StrCat("robust_z: {above: 3}\n    baseline: {kind: reference, file: ", file, "}"));
  };
  const std::string band = directory.File("band.yaml");
  for (const std::string& file : {band, std::string("/etc/passwd"), std::string("band.yaml")}) {
    EXPECT_THAT(Run(reference(file)),
                support::StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("own.yaml:8:39: "),
                                        HasSubstr("have read no band"), Not(HasSubstr("root:")))))
        << file;
  }
  std::ofstream(directory.File("rules.yaml")) << reference("band.yaml");
  ASSERT_OK_AND_ASSIGN(in_force_, rules::LoadRules({{directory.File("rules.yaml")}}));
  ASSERT_OK_AND_ASSIGN(const auto found, Run(reference(band)));
  EXPECT_EQ(found.alerts_size(), 1);
}

}  // namespace
}  // namespace foreshock::backtest
