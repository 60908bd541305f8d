#include "daemon/backtest/stored_explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/support/memory_store.h"
#include "tests/support/stored_run.h"

namespace foreshock::backtest {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kExplained[] = R"(
groups:
  - name: g
    defaults: {labels: {severity: info}, warm_up: judge}
    rules:
      - {alert: high, indicator: train.loss, threshold: {above: 8.5}}
      - {alert: rewarded, indicator: train.reward_mean, threshold: {above: 1}}
signatures:
  - {signature: named, when: high, labels: {severity: warning, fault: named}}
)";

// The loss falls from 9 at step 0 by 1/16 a step; attempt 1 ends at step 99, and attempt 2 goes on
// from step 60 to 79.
class StoredExplainTest : public ::testing::Test {
 protected:
  void SetUp() override { support::StoreRun("exp", 1, store_.get()); }

  absl::StatusOr<v1::ExplainResponse> Explain(const std::string& rule,
                                              std::optional<int64_t> step = std::nullopt) {
    v1::ExplainRequest request;
    request.set_run(run_);
    request.set_rule(rule);
    if (step.has_value()) request.set_step(*step);
    return ExplainStoredRun(*store_, rules_, request, limits_, cancelled_);
  }

  std::unique_ptr<store::Store> store_ = support::NewMemoryStore();
  std::shared_ptr<const rules::RuleSet> rules_ = *rules::ParseRules("r.yaml", kExplained);
  BacktestLimits limits_;
  std::function<bool()> cancelled_ = [] { return false; };
  std::string run_ = "exp";
};

TEST_F(StoredExplainTest, SaysWhatTheRuleComparedAtTheStep) {
  ASSERT_OK_AND_ASSIGN(v1::ExplainResponse seen, Explain("high", 4));
  EXPECT_TRUE(seen.firing());
  EXPECT_EQ(seen.step(), 4);
  EXPECT_EQ(seen.judging(0).rows(), 5u);
  EXPECT_EQ(seen.series(0).value(), 9 - 4.0 / 16);
  EXPECT_EQ(seen.series(0).limit(), 8.5);
  ASSERT_OK_AND_ASSIGN(seen, Explain("high", 40));
  EXPECT_FALSE(seen.firing());
  EXPECT_EQ(seen.series(0).value(), 9 - 40.0 / 16);
}

TEST_F(StoredExplainTest, OfAStepThatRanTwiceTheNewerAttemptCounts) {
  ASSERT_OK_AND_ASSIGN(v1::ExplainResponse seen, Explain("high", 70));
  EXPECT_EQ(seen.judging(0).rows(), 111u);  // attempt 1, then 60 to 70 again
  ASSERT_OK_AND_ASSIGN(seen, Explain("high"));
  EXPECT_EQ(seen.step(), 79);
  EXPECT_EQ(seen.judging(0).rows(), 120u);
}

TEST_F(StoredExplainTest, SaysHowFarAllRulesHaveJudged) {
  ASSERT_OK_AND_ASSIGN(const v1::ExplainResponse seen, Explain(""));
  ASSERT_EQ(seen.judging_size(), 2);
  EXPECT_EQ(seen.judging(0).from_step(), 0);
  EXPECT_EQ(seen.judging(1).rule(), "rewarded");
  EXPECT_EQ(seen.judging(1).why_not(), "no value of train.reward_mean has come");
}

TEST_F(StoredExplainTest, SaysOfASignatureWhatHasMoved) {
  ASSERT_OK_AND_ASSIGN(const v1::ExplainResponse fires, Explain("named", 4));
  EXPECT_TRUE(fires.firing());
  ASSERT_EQ(fires.evidence_size(), 1);
  EXPECT_TRUE(fires.evidence(0).supports());
  ASSERT_OK_AND_ASSIGN(const v1::ExplainResponse quiet, Explain("named", 40));
  EXPECT_EQ(quiet.missing(), "its `when` does not hold");
  EXPECT_FALSE(quiet.evidence(0).supports());
}

TEST_F(StoredExplainTest, RefusesWhatIsNotThere) {
  EXPECT_THAT(Explain("hihg"),
              support::StatusIs(absl::StatusCode::kNotFound,
                                AllOf(HasSubstr("hihg"), HasSubstr("did you mean high?"))));
  run_ = "";
  EXPECT_THAT(Explain("high"),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run: required")));
  run_ = "exq";
  EXPECT_THAT(Explain("high"), support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("exp")));
  run_ = "exp";
  cancelled_ = [] { return true; };
  EXPECT_THAT(Explain("high"),
              support::StatusIs(absl::StatusCode::kCancelled, HasSubstr("nobody waits")));
  cancelled_ = [] { return false; };
  limits_ = {.judged_max = 10};
  ASSERT_OK_AND_ASSIGN(const v1::ExplainResponse seen, Explain("high"));
  EXPECT_EQ(seen.step(), 9);
  EXPECT_EQ(seen.stopped(), "the rules have judged 10 values");
}

}  // namespace
}  // namespace foreshock::backtest
