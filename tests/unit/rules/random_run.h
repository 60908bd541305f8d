// Runs in which everything happens that rules look at, and rules of every kind for them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/rules/evaluator.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {

inline constexpr char kRules[] = R"(
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
      - alert: cusum
        indicator: train.x
        cusum: {outside: 6, slack: 0.5, clear: 2}
        baseline: {samples: 20, lag: 8, min_samples: 6}
      - alert: shift
        indicator: train.x
        level_shift: {outside: 4, samples: 6, clear: 2}
        baseline: {samples: 20, min_samples: 6}
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
      - alert: quiet
        indicator: attn.delta2.entropy_ratio_l1
        aggregate: mean
        no_data: {intervals: 3}
      - alert: nonfinite
        non_finite: {names: [loss], scope: rank, ranks: {at_most: 0.5}}
        clear_samples: 7
      - alert: divided
        indicator: attn.delta2.entropy_ratio_l1
        aggregate: mean
        divide_by: train.lr
        relative_rise: {above: 1.3, clear: 1.1}
        baseline: {samples: 12, lag: 2, min_samples: 6}
      - alert: settled
        indicator: train.x
        warm_up: skip
        threshold: {above: 1.3, clear: 1.2}
      - alert: above_plateau
        indicator: train.lr
        relative_rise: {above: 1.1, clear: 1.02}
        baseline: {kind: plateau}
      - alert: differs
        indicator: train.x
        continuity: {outside: 0.3, within: 100 steps, min_z: 0, clear: 0.2}
        baseline: {samples: 30, min_samples: 8}
      - alert: lost
        indicator: train.x
        level: {rise: 0.05, noises: 3}
        accept_while: improves
      - alert: promised
        indicator: train.x
        level: {rise: 0.2, noises: 3}
        promise: 1000 samples
      - alert: improves
        indicator: train.x
        level: {fall: 0.2, noises: 3, accept_after: 20}
      - alert: worse
        indicator: attn.delta2.entropy_ratio_l1
        aggregate: mean
        best_so_far: {fall: 0.1, noises: 2}
      - alert: drifts
        indicator: train.x
        drift: {rise: 0.3}
        rebase_on: [cadence]
      - alert: single
        indicator: train.x
        spike: {rise: 0.3, noises: 5}
      - alert: repeats
        indicator: train.x
        frozen: {samples: 3}
      - alert: nonfinite_gradient
        non_finite: {names: ["grad*"], scope: run}
        clear_samples: 4
signatures:
  - signature: both
    when: {any: [level, {all: [drop, anchored]}]}
    score: [{if: level, points: 1}, {if: {all: [drop, anchored]}, points: 1}, {if: nonfinite, points: -2}]
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
    score: [{if: {any: [z, quiet]}, points: 1}]
    labels: {severity: warning, fault: unknown}
)";

// Levels and learning rates that change now and then, silences, gaps, and non-finite losses.
inline std::vector<model::ClosedStep> RandomRun(std::mt19937* random, int steps, int64_t step = 0) {
  const auto draw = [random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(*random);
  };
  std::vector<model::ClosedStep> run;
  double x_level = 1;
  double layer_level[3] = {0.9, 0.9, 0.9};
  bool silent = false;
  double lr_level = 1e-3;
  for (int i = 0; i < steps; ++i) {
    step += draw(0, 1) < 0.03 ? 5 : 1;
    if (draw(0, 1) < 0.03) x_level = draw(0, 1) < 0.5 ? 1 : draw(0.5, 2.5);
    if (draw(0, 1) < 0.03) layer_level[static_cast<int>(draw(0, 3))] = draw(0.5, 0.95);
    if (draw(0, 1) < 0.02) silent = !silent;
    if (draw(0, 1) < 0.01) lr_level *= draw(0, 1) < 0.5 ? 0.7 : 1.3;
    model::ClosedStep closed = MakeStep(step);
    closed.samples.push_back(MakeSample("train.lr", lr_level * std::min(1.0, (i + 1) / 40.0)));
    if (draw(0, 1) > 0.05) {
      closed.samples.push_back(MakeSample("train.x", x_level * draw(0.95, 1.05)));
    }
    if (i % 2 == 0 && !silent) {
      for (int32_t layer = 0; layer < 3; ++layer) {
        for (int64_t head = 0; head < 2; ++head) {
          closed.samples.push_back(MakeSample("attn.delta2.entropy_ratio_l1",
                                              layer_level[layer] * draw(0.99, 1.01), layer,
                                              model::Unit::kHead, head));
        }
      }
    }
    // Non-finite input leaves a count, and no value of the rank that sent it.
    const auto add_finding = [&closed](const std::string& name, uint32_t rank) {
      model::Finding finding;
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
        closed.samples.push_back(
            MakeSample("train.loss", 2, model::kNoLayer, model::Unit::kRank, rank));
      }
    }
    const auto add_count = [&closed](const std::string& name, double count) {
      closed.samples.push_back(
          MakeSample("train.nonfinite", count, model::kNoLayer, model::Unit::kTensor));
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
inline model::ClosedStep AsStored(const model::ClosedStep& step) {
  model::ClosedStep stored = step;
  stored.findings.clear();
  for (model::Sample& sample : stored.samples) sample.value = static_cast<float>(sample.value);
  return stored;
}

inline std::unique_ptr<Evaluator> NewEvaluator() {
  auto rules = ParseRules("restart.yaml", kRules);
  EXPECT_OK(rules);
  return std::make_unique<Evaluator>(*rules, "run", v1::ModelShape());
}

}  // namespace foreshock::rules
