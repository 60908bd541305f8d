// A restart changes nothing: priming with what is stored and restoring the alerts that fire goes on
// as if there had been none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "daemon/rules/evaluator.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock {
namespace {

constexpr char kRules[] = R"(
groups:
  - name: g
    defaults: {labels: {severity: info}, warm_up: judge}
    rules:
      - alert: level
        indicator: train.x
        threshold: {above: 1.5, clear: 1.2}
        hits: 2 of 3
        for: 2 steps
        clear_samples: 3
        keep_firing_for: 4 steps
        rate_limit: {starts: 2, in: 60 steps}
      - alert: drop
        indicator: attn.delta2.entropy_ratio_l1
        aggregate: mean
        relative_drop: {below: 0.9, clear: 0.95}
        baseline: {samples: 10, lag: 3, min_samples: 4}
        hits: 3 of 3
        clear_samples: 2
        release_samples: 25
      - alert: anchored
        indicator: train.x
        smooth: {median: 4}
        relative_rise: {above: 1.4, clear: 1.2}
        baseline: {kind: anchored, samples: 6}
        clear_samples: 2
      - alert: z
        indicator: train.x
        robust_z: {outside: 5, clear: 2, log: true}
        baseline: {samples: 20, lag: 2, min_samples: 8}
        release_samples: 12
      - alert: cusum
        indicator: train.x
        cusum: {outside: 6, slack: 0.5, clear: 2}
        baseline: {samples: 20, lag: 8, min_samples: 6}
      - alert: shift
        indicator: train.x
        level_shift: {outside: 4, samples: 6, clear: 2}
        baseline: {samples: 20, min_samples: 6}
        release_samples: 30
      - alert: slope
        indicator: train.x
        slope: {above: 10, per: 1000 steps, samples: 12, min_samples: 8, min_z: 2}
      - alert: ahead
        indicator: attn.delta2.entropy_ratio_l1
        aggregate: min
        slope: {will_cross: {below: 0.4, clear: 0.6}, within: 50 steps, samples: 10, min_z: 2}
      - alert: spikes
        indicator: train.x
        spike_budget: {spike: {outside: 6}, share: 10%, of: 20 samples, clear: 5%}
        baseline: {kind: anchored, samples: 10, min_samples: 4}
        release_samples: 40
      - alert: quiet
        indicator: attn.delta2.entropy_ratio_l1
        aggregate: mean
        no_data: {intervals: 3}
      - alert: nonfinite
        non_finite: {names: [loss], scope: rank, ranks: {at_most: 0.5}}
        clear_samples: 7
      - alert: nonfinite_gradient
        non_finite: {names: ["grad*"], scope: run}
        clear_samples: 4
signatures:
  - signature: both
    when: {any: [level, {all: [drop, anchored]}]}
    absent: [nonfinite]
    keep_firing_for: 5 steps
    for: 2 samples
    rate_limit: {starts: 3, in: 100 steps}
    confirmations: [{when: {all: [level, drop]}, severity: critical}]
    labels: {severity: warning, fault: both}
  - signature: bad_rank
    when: {any: [nonfinite, nonfinite_gradient]}
    labels: {severity: critical, fault: bad_rank}
  - signature: other
    when: {any: [z, quiet]}
    for: 3 steps
    fallback: true
    labels: {severity: warning, fault: unknown}
)";

// Levels that change now and then, silences, gaps, and non-finite losses.
std::vector<ClosedStep> RandomRun(std::mt19937* random, int steps) {
  const auto draw = [random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(*random);
  };
  std::vector<ClosedStep> run;
  double x_level = 1;
  double layer_level[3] = {0.9, 0.9, 0.9};
  bool silent = false;
  int64_t step = 0;
  for (int i = 0; i < steps; ++i) {
    step += draw(0, 1) < 0.03 ? 5 : 1;
    if (draw(0, 1) < 0.03) x_level = draw(0, 1) < 0.5 ? 1 : draw(0.5, 2.5);
    if (draw(0, 1) < 0.03) layer_level[static_cast<int>(draw(0, 3))] = draw(0.5, 0.95);
    if (draw(0, 1) < 0.02) silent = !silent;
    ClosedStep closed = MakeStep(step);
    if (draw(0, 1) > 0.05) {
      closed.samples.push_back(MakeSample("train.x", x_level * draw(0.95, 1.05)));
    }
    if (i % 2 == 0 && !silent) {
      for (int32_t layer = 0; layer < 3; ++layer) {
        for (int64_t head = 0; head < 2; ++head) {
          closed.samples.push_back(MakeSample("attn.delta2.entropy_ratio_l1",
                                              layer_level[layer] * draw(0.99, 1.01), layer,
                                              Unit::kHead, head));
        }
      }
    }
    // Non-finite input leaves a count, and no value of the rank that sent it.
    const auto add_finding = [&closed](const std::string& name, uint32_t rank) {
      Finding finding;
      finding.name = name;
      finding.rank = rank;
      finding.count = 1;
      closed.findings.push_back(finding);
    };
    double bad_losses = 0;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      if (i > 0 && draw(0, 1) < 0.01) {
        add_finding("loss", rank);
        ++bad_losses;
      } else {
        closed.samples.push_back(MakeSample("train.loss", 2, kNoLayer, Unit::kRank, rank));
      }
    }
    const auto add_count = [&closed](const std::string& name, double count) {
      closed.samples.push_back(MakeSample("train.nonfinite", count, kNoLayer, Unit::kTensor));
      closed.samples.back().series.unit_name = name;
    };
    if (bad_losses > 0) add_count("loss", bad_losses);
    if (draw(0, 1) < 0.02) {
      add_finding("grad_norm", 0);
      add_count("grad_norm", 1);
    }
    run.push_back(std::move(closed));
  }
  return run;
}

// What the store gives back: points in float32, no findings.
ClosedStep AsStored(const ClosedStep& step) {
  ClosedStep stored = step;
  stored.findings.clear();
  for (Sample& sample : stored.samples) sample.value = static_cast<float>(sample.value);
  return stored;
}

std::unique_ptr<Evaluator> NewEvaluator() {
  auto rules = ParseRules("restart.yaml", kRules);
  EXPECT_OK(rules);
  return std::make_unique<Evaluator>(*rules, "run", v1::ModelShape());
}

std::vector<std::string> Rows(const std::vector<model::AlertRow>& rows) {
  std::vector<std::string> text;
  for (const model::AlertRow& row : rows) text.push_back(row.alert().ShortDebugString());
  return text;
}

TEST(RestartTest, GoesOnAsIfThereHadBeenNone) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int firing_over_a_cut = 0;
  int judged_rows = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<ClosedStep> run = RandomRun(&random, 300);
    const size_t cut = std::uniform_int_distribution<size_t>(1, run.size() - 1)(random);
    SCOPED_TRACE("trial " + std::to_string(trial) + " cut " + std::to_string(cut));

    std::unique_ptr<Evaluator> straight = NewEvaluator();
    straight->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    std::map<std::string, model::AlertRow> stored;
    for (size_t i = 0; i < cut; ++i) {
      for (const model::AlertRow& row : straight->Evaluate(run[i])) stored[row.alert().id()] = row;
    }

    std::unique_ptr<Evaluator> restarted = NewEvaluator();
    restarted->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    for (size_t i = 0; i < cut; ++i) restarted->Prime(AsStored(run[i]));
    for (const auto& [id, row] : stored) {
      if (row.alert().state() == v1::ALERT_STATE_RESOLVED) continue;
      ASSERT_OK(restarted->Restore(row));
      ++firing_over_a_cut;
    }
    for (size_t i = cut; i < run.size(); ++i) {
      const std::vector<std::string> expected = Rows(straight->Evaluate(run[i]));
      ASSERT_EQ(Rows(restarted->Evaluate(run[i])), expected) << "step " << run[i].row.step;
      judged_rows += static_cast<int>(expected.size());
    }
  }
  EXPECT_GT(firing_over_a_cut, 20);
  EXPECT_GT(judged_rows, 500);
}

TEST(RestartTest, WithoutHistoryTheStoredAlertsStillDoNotFireAgain) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 40; ++trial) {
    const std::vector<ClosedStep> run = RandomRun(&random, 200);
    std::unique_ptr<Evaluator> first = NewEvaluator();
    first->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    std::map<std::string, model::AlertRow> stored;
    for (int i = 0; i < 100; ++i) {
      for (const model::AlertRow& row : first->Evaluate(run[i])) stored[row.alert().id()] = row;
    }
    std::unique_ptr<Evaluator> second = NewEvaluator();
    second->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    std::map<std::string, std::string> firing;  // rule by id
    for (const auto& [id, row] : stored) {
      if (row.alert().state() == v1::ALERT_STATE_RESOLVED) continue;
      ASSERT_OK(second->Restore(row));
      firing[row.alert().rule()] = id;
    }
    for (int i = 100; i < 200; ++i) {
      for (const model::AlertRow& row : second->Evaluate(run[i])) {
        const auto before = firing.find(row.alert().rule());
        if (before == firing.end()) continue;
        // The first word on a restored alert is about that alert, not about a new one.
        ASSERT_EQ(row.alert().id(), before->second) << row.alert().ShortDebugString();
        if (row.alert().state() == v1::ALERT_STATE_RESOLVED) firing.erase(before);
      }
    }
  }
}

TEST(RestartTest, AResumeIsStillComparedWithTheAttemptBeforeIt) {
  const std::string text = OneRule(
      {"indicator: attn.qk.norm", "aggregate: mean", "continuity: {outside: 0.05, min_z: 0}"});
  const auto at = [](int64_t step, uint32_t attempt, double norm) {
    ClosedStep closed = MakeStep(step, {MakeSample("attn.qk.norm", norm, 1, Unit::kHead, 0),
                                        MakeSample("attn.qk.norm", norm, 1, Unit::kHead, 1)});
    closed.row.attempt = attempt;
    return closed;
  };
  ASSERT_OK_AND_ASSIGN(auto rules, ParseRules("r.yaml", text));
  for (const bool overtaken : {true, false}) {
    Evaluator evaluator(rules, "run", v1::ModelShape());
    evaluator.BeginAttempt({.number = 1, .resume_step = std::nullopt});
    for (int64_t step = 1; step <= 20; ++step) evaluator.Prime(at(step, 1, 3));
    evaluator.BeginAttempt({.number = 2, .resume_step = 21});
    for (int64_t step = 21; step <= 24; ++step) evaluator.Prime(at(step, 2, 3));
    for (int64_t step = 25; step <= 40 && overtaken; ++step) {
      evaluator.PrimeOvertaken(at(step, 1, 3));
    }
    EXPECT_TRUE(evaluator.Evaluate(at(25, 2, 3.1)).empty());
    const std::vector<model::AlertRow> rows = evaluator.Evaluate(at(26, 2, 3.2));
    ASSERT_EQ(rows.size(), overtaken ? 1u : 0u);
    if (!overtaken) continue;
    EXPECT_EQ(rows[0].alert().baseline(), 3);
    EXPECT_EQ(rows[0].alert().firing_step(), 26);
  }
}

TEST(RestartTest, AnAlertWhoseRuleIsGoneIsResolved) {
  std::unique_ptr<Evaluator> evaluator = NewEvaluator();
  evaluator->BeginAttempt({.number = 1, .resume_step = std::nullopt});
  model::AlertRow row;
  row.mutable_alert()->set_id("abc");
  row.mutable_alert()->set_rule("removed");
  row.mutable_alert()->set_state(v1::ALERT_STATE_FIRING);
  ASSERT_OK(evaluator->Restore(row));
  const std::vector<model::AlertRow> rows = evaluator->Evaluate(MakeStep(7));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].alert().id(), "abc");
  EXPECT_EQ(rows[0].alert().state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(rows[0].alert().resolved_step(), 7);
  EXPECT_TRUE(evaluator->Evaluate(MakeStep(8)).empty());
}

TEST(RestartTest, AnUnreadableStateIsAnErrorThatNamesTheAlert) {
  std::unique_ptr<Evaluator> evaluator = NewEvaluator();
  model::AlertRow row;
  row.mutable_alert()->set_id("abc");
  row.mutable_alert()->set_rule("level");
  row.set_state("\xFF\xFF");
  EXPECT_THAT(evaluator->Restore(row),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("abc")));
}

}  // namespace
}  // namespace foreshock
