// A rule whose detector judges the samples of series, each series by itself.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/rules/rule_judge.h"
#include "daemon/rules/siblings.h"

namespace foreshock::rules {

class SamplesJudge : public RuleJudge {
 public:
  using RuleJudge::RuleJudge;

 protected:
  void JudgeStep(const StepView& view) override;

 private:
  struct Taken {
    size_t subject;
    int64_t previous;  // step of the sample before; -1: none
    int64_t base;      // the last step that the value does not reflect
    double value;
  };

  // The value that the rule judges, where this step has one. `previous`: the step of the sample
  // before, -1: none; `base`: the last step that the value does not reflect.
  std::optional<double> ValueOf(const StepView& view, int64_t previous, int64_t base,
                                Subject* subject) const;
  // The baseline that does not come from the series' own samples.
  std::optional<Baseline> GivenBaseline(const StepView& view, const Subject& subject) const;
  // What a sample over `window` steps is to those before it.
  enum class Window : uint8_t { kUsual, kOther, kNew };
  Window WindowOf(int64_t window, Subject* subject) const;
  bool CadenceChanged(int64_t interval, Subject* subject) const;
  // The subject's value at this step, if it is one to judge.
  std::optional<Taken> Take(const StepView& view, size_t index);
  void CompareSiblings(int64_t step);
  void Push(const StepView& view, const Taken& taken);

  std::vector<Taken> taken_;  // of one step; kept for its memory
  Siblings siblings_;
};

}  // namespace foreshock::rules
