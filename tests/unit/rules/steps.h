// Closed steps and one-rule sets for tests of the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rules/evaluator.h"

namespace foreshock::rules {

inline model::Sample MakeSample(const std::string& indicator, double value,
                                int32_t layer = model::kNoLayer,
                                model::Unit unit = model::Unit::kNone, int64_t unit_id = 0,
                                uint32_t flags = 0) {
  model::Sample sample;
  sample.series = {
      .indicator = indicator, .layer = layer, .unit = unit, .unit_id = unit_id, .unit_name = ""};
  sample.value = value;
  sample.flags = flags;
  return sample;
}

inline model::ClosedStep MakeStep(int64_t step, std::vector<model::Sample> samples = {}) {
  model::ClosedStep closed;
  closed.run = "run";
  closed.row.attempt = 1;
  closed.row.step = step;
  closed.row.ranks = 4;
  closed.samples = std::move(samples);
  return closed;
}

// A file with one rule `r`, judged from the first step on; its other keys are given one a line.
inline std::string OneRule(const std::vector<std::string>& keys) {
  std::string text =
      "groups:\n"
      "  - name: g\n"
      "    rules:\n"
      "      - alert: r\n"
      "        labels: {severity: info}\n"
      "        warm_up: judge\n";
  for (const std::string& key : keys) absl::StrAppend(&text, "        ", key, "\n");
  return text;
}

inline std::string Text(const model::AlertRow& row) {
  const v1::Alert& alert = row.alert();
  std::string layers;
  for (const uint32_t layer : alert.layers()) absl::StrAppend(&layers, " L", layer);
  return absl::StrCat(alert.rule(), " ",
                      alert.state() == v1::ALERT_STATE_FIRING ? "firing" : "resolved", layers);
}

// An evaluator of one run, and what it returned as text.
class TestRun {
 public:
  explicit TestRun(const std::string& rules_text, uint32_t layers = 0) {
    auto rules = ParseRules("test.yaml", rules_text);
    EXPECT_TRUE(rules.ok()) << rules.status();
    v1::ModelShape model;
    model.set_layers(layers);
    evaluator = std::make_unique<Evaluator>(*rules, "run", model);
    evaluator->BeginAttempt({.number = 1, .resume_step = std::nullopt});
  }

  void Step(const model::ClosedStep& step) {
    for (model::AlertRow& row : evaluator->Evaluate(step)) {
      seen.push_back(absl::StrCat(step.row.step, " ", Text(row)));
      rows.push_back(std::move(row));
    }
  }
  void Step(int64_t step, std::vector<model::Sample> samples) {
    Step(MakeStep(step, std::move(samples)));
  }

  std::unique_ptr<Evaluator> evaluator;
  std::vector<std::string> seen;  // "12 r firing L0 L2"
  std::vector<model::AlertRow> rows;
};

}  // namespace foreshock::rules
