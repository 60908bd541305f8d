// A rule whose detector judges the samples of series, each series by itself.
#pragma once

#include <memory>
#include <optional>

#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {

class SamplesJudge : public RuleJudge {
 public:
  using RuleJudge::RuleJudge;

 protected:
  void JudgeStep(const StepView& view) override;

 private:
  // The value that the rule judges, where this step has one. `previous`: the step of the sample
  // before, -1: none; `base`: the last step that the value does not reflect.
  std::optional<double> ValueOf(const StepView& view, int64_t previous, int64_t base,
                                Subject* subject) const;
  // The baseline that does not come from the series' own samples.
  std::optional<Baseline> GivenBaseline(const StepView& view, const Subject& subject) const;
  bool CadenceChanged(int64_t interval, Subject* subject) const;
  void JudgeSubject(const StepView& view, Subject* subject);
};

}  // namespace foreshock::rules
