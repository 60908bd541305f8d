// The RL part of the default pack, on made runs: what each signature must see and must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "daemon/rules/evaluator.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct RlStep {
  double k3 = 0.002;
  double ratio_tail = 0.001;
  double prob_diff = 0.003;
  double route_mismatch = 0.02;
  double staleness = 1;
  double update_ratio = 1e-5;
  double reward_mean = 0.3;
  std::optional<double> reward_std = 0.2;
};

// Signatures that fired, as "step fault severity", over 200 steps.
std::vector<std::string> Fired(const std::function<void(int64_t, RlStep*)>& change) {
  const std::vector<std::string> files = {FORESHOCK_SOURCE_DIR "/rules/default.yaml",
                                          FORESHOCK_SOURCE_DIR "/rules/signatures.yaml"};
  auto rules = LoadRules(files);
  EXPECT_OK(rules);
  Evaluator evaluator(*rules, "rl", v1::ModelShape());
  evaluator.BeginAttempt({.number = 1});
  std::vector<std::string> seen;
  for (int64_t step = 0; step < 200; ++step) {
    RlStep values;
    const double wave = 1 + 0.2 * std::sin(1.7 * static_cast<double>(step));
    values.k3 *= wave;
    values.ratio_tail *= wave;
    values.reward_mean *= wave;
    change(step, &values);
    model::ClosedStep closed = MakeStep(
        step, {MakeSample("rl.k3", values.k3), MakeSample("rl.ratio_tail", values.ratio_tail),
               MakeSample("rl.k1", 0.5 * values.k3), MakeSample("rl.ess", 0.95),
               MakeSample("rl.prob_diff_mean", values.prob_diff),
               MakeSample("rl.route_mismatch", values.route_mismatch),
               MakeSample("train.staleness", values.staleness),
               MakeSample("train.update_ratio", values.update_ratio),
               MakeSample("train.reward_mean", values.reward_mean)});
    if (values.reward_std.has_value()) {
      closed.samples.push_back(MakeSample("train.reward_std", *values.reward_std));
    }
    for (const model::AlertRow& row : evaluator.Evaluate(closed)) {
      const v1::Alert& alert = row.alert();
      if (alert.severity() == "info" || alert.state() != v1::ALERT_STATE_FIRING) continue;
      seen.push_back(absl::StrCat(step, " ", alert.fault(), " ", alert.severity()));
    }
  }
  return seen;
}

TEST(RlPackTest, AHealthyRunIsQuiet) {
  EXPECT_THAT(Fired([](int64_t, RlStep*) {}), IsEmpty());
  // A reward that rises, a learning rate that is 0 at first, ten steps alone.
  EXPECT_THAT(Fired([](int64_t step, RlStep* values) {
                values->reward_mean += 0.002 * static_cast<double>(step);
                if (step < 10) values->update_ratio = 0;
              }),
              IsEmpty());
}

TEST(RlPackTest, AGapThatGrowsIsAMismatchAndAnExtremeOnePages) {
  EXPECT_THAT(Fired([](int64_t step, RlStep* values) {
                if (step >= 100) values->k3 = 0.03;
              }),
              ElementsAre("104 train_infer_mismatch warning"));
  EXPECT_THAT(Fired([](int64_t step, RlStep* values) {
                if (step >= 100) values->k3 = 0.3;
              }),
              ElementsAre("104 train_infer_mismatch critical"));
  // From the first step on, without a healthy past.
  EXPECT_THAT(Fired([](int64_t, RlStep* values) { values->ratio_tail = 0.05; }),
              ElementsAre("4 train_infer_mismatch warning"));
}

TEST(RlPackTest, AHighFloorOfK3AloneIsNone) {
  EXPECT_THAT(Fired([](int64_t, RlStep* values) { values->k3 *= 10; }), IsEmpty());
}

TEST(RlPackTest, AGapThatFollowsTheAgeOfTheRolloutsIsNone) {
  EXPECT_THAT(Fired([](int64_t step, RlStep* values) {
                if (step < 100) return;
                values->staleness = 4;
                values->k3 = 0.03;
              }),
              IsEmpty());
}

TEST(RlPackTest, WeightsThatDoNotMoveWhileRewardsDiffer) {
  const auto omitted = [](int64_t, RlStep* values) { values->update_ratio = 0; };
  EXPECT_THAT(Fired(omitted), ElementsAre("19 actor_update_omitted warning"));
  // All rewards equal: nothing to learn from.
  EXPECT_THAT(Fired([&](int64_t step, RlStep* values) {
                omitted(step, values);
                values->reward_std = 0;
              }),
              IsEmpty());
  // No rewards at all is no RL run: an update of 0 there is another fault.
  EXPECT_THAT(Fired([&](int64_t step, RlStep* values) {
                omitted(step, values);
                values->reward_std.reset();
              }),
              IsEmpty());
}

}  // namespace
}  // namespace foreshock::rules
