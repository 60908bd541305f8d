// Criteria on series made by hand: what a proxy does that answers as the full model, and one that
// fails in one point each.
#include "daemon/backtest/fidelity.h"

#include <algorithm>
#include <functional>
#include <string>

#include "tests/support/status_matchers.h"

namespace foreshock::backtest {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 200;
constexpr int64_t kFault = 100;

model::SeriesKey FidelityKey(const std::string& indicator, int32_t layer = model::kNoLayer) {
  return {indicator, layer, model::Unit::kNone, 0, ""};
}

void Fill(const model::SeriesKey& key, const std::function<double(int64_t)>& value,
          RecordedRun* run, int64_t every = 1) {
  for (int64_t step = 0; step < kSteps; step += every) {
    run->series[key].push_back({step, value(step)});
  }
}

v1::Alert Fires(const std::string& rule, const std::string& indicator, int64_t step,
                const std::string& fault, const std::string& severity = "warning") {
  v1::Alert alert;
  alert.set_id(rule);
  alert.set_rule(rule);
  alert.set_indicator(indicator);
  alert.set_pending_step(step - 2);
  alert.set_firing_step(step);
  alert.set_fault(fault);
  alert.set_severity(severity);
  alert.set_all_layers(true);
  return alert;
}

// From the fault on k3 climbs and the reward falls; the proxy has other values and the same course.
class FidelityTest : public ::testing::Test {
 protected:
  FidelityTest() {
    const auto since = [](int64_t step) {
      return static_cast<double>(std::max<int64_t>(0, step - kFault));
    };
    for (const double size : {1.0, 0.3}) {
      RecordedRun& healthy = size == 1.0 ? full_healthy_ : proxy_healthy_;
      RecordedRun& fault = size == 1.0 ? full_fault_ : proxy_fault_;
      healthy.name = size == 1.0 ? "full" : "proxy";
      fault.name = healthy.name + "-fault";
      Fill(
          FidelityKey("rl.k3"), [&](int64_t step) { return 0.1 * size + 1e-4 * (step % 7); },
          &healthy);
      Fill(
          FidelityKey("rl.k3"),
          [&](int64_t step) { return 0.1 * size + 1e-4 * (step % 7) + size * 0.01 * since(step); },
          &fault);
      Fill(
          FidelityKey("train.reward_mean"), [&](int64_t step) { return size + 1e-3 * (step % 5); },
          &healthy);
      Fill(
          FidelityKey("train.reward_mean"),
          [&](int64_t step) { return size + 1e-3 * (step % 5) - size * 0.002 * since(step); },
          &fault);
      fault.alerts = {Fires("mismatch", "rl.k3", size == 1.0 ? 110 : 112, "train_infer_mismatch"),
                      Fires("reward_low", "train.reward_mean", size == 1.0 ? 130 : 150, "unknown")};
    }
  }

  FidelityInput Input() const {
    return {.full_healthy = &full_healthy_,
            .full_fault = &full_fault_,
            .proxy_healthy = &proxy_healthy_,
            .proxy_fault = &proxy_fault_,
            .fault_from = kFault};
  }

  Fidelity Judged() const { return Judged(Input()); }
  static Fidelity Judged(const FidelityInput& input) {
    const auto fidelity = JudgeFidelity(input);
    EXPECT_OK(fidelity);
    return *fidelity;
  }

  static Outcome Of(const Fidelity& fidelity, const std::string& name) {
    return Find(fidelity, name).outcome;
  }
  static const Criterion& Find(const Fidelity& fidelity, const std::string& name) {
    for (const Criterion& one : fidelity.criteria) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << "no criterion " << name;
    return fidelity.criteria.front();
  }

  RecordedRun full_healthy_, full_fault_, proxy_healthy_, proxy_fault_;
};

TEST_F(FidelityTest, AProxyThatAnswersAlikePassesEveryCriterion) {
  const Fidelity fidelity = Judged();
  EXPECT_EQ(fidelity.outcome, Outcome::kPass);
  for (const Criterion& one : fidelity.criteria) {
    EXPECT_EQ(one.outcome, Outcome::kPass) << one.name << ": " << one.reason;
  }
  EXPECT_EQ(fidelity.full_fault, "train_infer_mismatch");
  ASSERT_EQ(fidelity.indicators.size(), 2u);
  EXPECT_EQ(fidelity.indicators[0].indicator, "rl.k3");  // it moves first
  EXPECT_GT(fidelity.indicators[0].full_slope.value(), 0);
  EXPECT_LT(fidelity.indicators[1].proxy_slope.value(), 0);
  EXPECT_GE(fidelity.indicators[1].spearman.value(), kTrendLeast);
}

TEST_F(FidelityTest, OtherRulesOrAnotherFaultAreAnotherType) {
  proxy_fault_.alerts.pop_back();
  EXPECT_THAT(Find(Judged(), "type").reason, HasSubstr("only the full model: reward_low"));
  proxy_fault_.alerts.push_back(full_fault_.alerts[1]);
  proxy_fault_.alerts.push_back(Fires("other", "train.loss", 180, "unknown"));
  EXPECT_THAT(Find(Judged(), "type").reason, HasSubstr("only the proxy: other"));
  proxy_fault_.alerts.pop_back();
  proxy_fault_.alerts[0].set_fault("router_collapse");
  EXPECT_THAT(
      Find(Judged(), "type").reason,
      HasSubstr("the full model names train_infer_mismatch first, the proxy router_collapse"));
  EXPECT_EQ(Judged().outcome, Outcome::kFail);
}

TEST_F(FidelityTest, AnAlertBelowTheSeverityOrBeforeTheFaultDoesNotCount) {
  proxy_fault_.alerts.push_back(Fires("mild", "train.loss", 150, "", "info"));
  proxy_fault_.alerts.push_back(Fires("early", "train.loss", 50, ""));
  EXPECT_EQ(Of(Judged(), "type"), Outcome::kPass);
  FidelityInput input = Input();
  input.severity = "info";
  EXPECT_EQ(Of(Judged(input), "type"), Outcome::kFail);
}

TEST_F(FidelityTest, AnAlertThatFiresWithoutTheFaultTooIsNoResponse) {
  for (RecordedRun* run : {&full_healthy_, &full_fault_, &proxy_healthy_, &proxy_fault_}) {
    run->alerts.push_back(Fires("always", "train.loss", 120, ""));
  }
  const Fidelity fidelity = Judged();
  EXPECT_EQ(fidelity.outcome, Outcome::kPass);
  EXPECT_EQ(fidelity.full_alerts.size(), 2u);
}

TEST_F(FidelityTest, TheOppositeSlopeIsAnotherDirection) {
  for (rules::TrendPoint& point : proxy_fault_.series[FidelityKey("train.reward_mean")]) {
    point.value =
        2 * proxy_healthy_.series[FidelityKey("train.reward_mean")][static_cast<size_t>(point.step)]
                .value -
        point.value;
  }
  const Fidelity fidelity = Judged();
  EXPECT_EQ(Of(fidelity, "direction"), Outcome::kFail);
  EXPECT_THAT(Find(fidelity, "direction").reason, HasSubstr("not that of train.reward_mean"));
  EXPECT_EQ(Of(fidelity, "trend"), Outcome::kFail);
}

TEST_F(FidelityTest, TheSameDirectionWithAnotherCourseIsAnotherTrend) {
  // It jumps at once and then falls back to half: the slope over all is still up.
  for (rules::TrendPoint& point : proxy_fault_.series[FidelityKey("rl.k3")]) {
    const double since = static_cast<double>(point.step - kFault);
    point.value = since < 0 ? 0.03 : 1.0 - 0.005 * since;
  }
  const Fidelity fidelity = Judged();
  EXPECT_EQ(Of(fidelity, "direction"), Outcome::kPass);
  EXPECT_EQ(Of(fidelity, "trend"), Outcome::kFail);
}

TEST_F(FidelityTest, WhatMovesFirstMustMoveFirstInTheProxyToo) {
  proxy_fault_.alerts[0].set_pending_step(160);
  const Fidelity fidelity = Judged();
  EXPECT_EQ(Of(fidelity, "order"), Outcome::kFail);
  EXPECT_THAT(Find(fidelity, "order").reason,
              HasSubstr("rl.k3 moves before train.reward_mean in the full model"));
  // At the same step it contradicts nothing.
  proxy_fault_.alerts[0].set_pending_step(proxy_fault_.alerts[1].pending_step());
  EXPECT_EQ(Of(Judged(), "order"), Outcome::kPass);
}

TEST_F(FidelityTest, TheEvidenceOfASignatureSaysWhatMoved) {
  for (RecordedRun* run : {&full_fault_, &proxy_fault_}) {
    run->alerts = {Fires("signature", "rl.k3", 120, "train_infer_mismatch")};
    int64_t step = 105;
    for (const char* indicator : {"rl.k3", "a", "b", "c", "d"}) {
      v1::Evidence* evidence = run->alerts[0].add_evidence();
      evidence->set_rule("r");
      evidence->set_indicator(indicator);
      evidence->set_supports(indicator != std::string("d"));
      evidence->set_step(step++);
    }
  }
  Fidelity fidelity = Judged();
  EXPECT_EQ(Of(fidelity, "order"), Outcome::kPass);
  EXPECT_THAT(Find(fidelity, "order").reason, HasSubstr("4 indicators move is 1.00"));
  // Five of six pairs the other way round.
  auto* evidence = proxy_fault_.alerts[0].mutable_evidence();
  (*evidence)[0].set_step(108);
  (*evidence)[3].set_step(105);
  (*evidence)[1].set_step(106);
  (*evidence)[2].set_step(107);
  fidelity = Judged();
  EXPECT_EQ(Of(fidelity, "order"), Outcome::kFail);
}

TEST_F(FidelityTest, ALateOnsetIsReportedAndNotRequired) {
  for (v1::Alert& alert : proxy_fault_.alerts) alert.set_firing_step(alert.firing_step() + 30);
  const Fidelity fidelity = Judged();
  EXPECT_EQ(Of(fidelity, "onset"), Outcome::kFail);
  EXPECT_THAT(Find(fidelity, "onset").reason,
              HasSubstr("10 steps after the fault in the full model, 42 in the proxy"));
  EXPECT_EQ(fidelity.outcome, Outcome::kPass);
}

TEST_F(FidelityTest, AHealthyProxyThatFiresIsNotQuiet) {
  proxy_healthy_.alerts.push_back(Fires("router_collapse", "router.z", 50, "router_collapse"));
  EXPECT_EQ(Of(Judged(), "quiet"), Outcome::kFail);
  full_healthy_.alerts = proxy_healthy_.alerts;
  EXPECT_EQ(Of(Judged(), "quiet"), Outcome::kPass);
}

TEST_F(FidelityTest, AFaultThatNothingShowsDecidesNothing) {
  full_fault_.alerts.clear();
  proxy_fault_.alerts.clear();
  Fidelity fidelity = Judged();
  EXPECT_EQ(fidelity.outcome, Outcome::kUndefined);
  EXPECT_EQ(Of(fidelity, "type"), Outcome::kUndefined);
  EXPECT_EQ(Of(fidelity, "direction"), Outcome::kUndefined);
  // What one asks for is judged all the same.
  FidelityInput input = Input();
  input.indicators = {"rl.*"};
  fidelity = Judged(input);
  EXPECT_EQ(Of(fidelity, "direction"), Outcome::kPass);
  EXPECT_EQ(Of(fidelity, "trend"), Outcome::kPass);
  EXPECT_EQ(fidelity.outcome, Outcome::kUndefined);
}

TEST_F(FidelityTest, AnIndicatorThatTheProxyLacksFails) {
  proxy_fault_.series.erase(FidelityKey("rl.k3"));
  const Fidelity fidelity = Judged();
  EXPECT_EQ(Of(fidelity, "direction"), Outcome::kFail);
  EXPECT_EQ(fidelity.indicators[0].reason, "the proxy has no series of it");
}

TEST_F(FidelityTest, OnlyTheLayersOfTheAlertCount) {
  for (RecordedRun* run : {&full_healthy_, &full_fault_, &proxy_healthy_, &proxy_fault_}) {
    const bool ill = run == &full_fault_ || run == &proxy_fault_;
    Fill(
        FidelityKey("router.z", 0), [](int64_t) { return 1.0; }, run);
    Fill(
        FidelityKey("router.z", 3),
        [ill](int64_t step) {
          return ill && step >= kFault ? 1.0 + 0.01 * static_cast<double>(step - kFault) : 1.0;
        },
        run);
    if (!ill) continue;
    run->alerts.push_back(Fires("z_high", "router.z", 160, "router_collapse"));
    run->alerts.back().set_all_layers(false);
    run->alerts.back().add_layers(3);
  }
  const Fidelity fidelity = Judged();
  EXPECT_EQ(fidelity.outcome, Outcome::kPass);
  for (const IndicatorResponse& one : fidelity.indicators) {
    if (one.indicator != "router.z") continue;
    ASSERT_EQ(one.layers.size(), 1u);
    EXPECT_NEAR(one.full.back().value, 0.99, 0.03);  // not halved by layer 0
  }
}

TEST_F(FidelityTest, RunsThatCannotBeJudgedAreRefused) {
  FidelityInput input = Input();
  input.fault_from = kSteps;
  EXPECT_THAT(
      JudgeFidelity(input).status().message(),
      HasSubstr(
          "is said to begin at step 200, but the full model's runs share the steps 0 to 199"));
  input = Input();
  input.indicators = {"nothing.*"};
  EXPECT_THAT(JudgeFidelity(input).status().message(),
              HasSubstr("the indicator nothing.*: the run full-fault has no such series"));
  for (auto& [key, curve] : proxy_fault_.series) curve.resize(10);
  EXPECT_THAT(JudgeFidelity(Input()).status().message(),
              HasSubstr("the runs proxy-fault and proxy have 10 steps in common; at least 20"));
  proxy_fault_.series.clear();
  EXPECT_THAT(JudgeFidelity(Input()).status().message(), HasSubstr("have no series of the same"));
}

}  // namespace
}  // namespace foreshock::backtest
