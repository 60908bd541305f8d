#include "daemon/rules/detectors/restarts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {
namespace {

class Restarts final : public RuleJudge {
 public:
  Restarts(const RestartsSpec& spec, std::shared_ptr<const Rule> rule)
      : RuleJudge(std::move(rule)), spec_(spec) {}

  bool NeedsClock() const override { return true; }
  void DescribeSource(v1::Alert* /*out*/) const override {}
  std::string Sentence() const override {
    return absl::StrCat(NumberText(worst_value()),
                        " attempts began anew while the run progressed by ", spec_.window_steps,
                        " steps");
  }

 private:
  void JudgeStep(const StepView& view) override {
    PushVerdict(view, FindOrAdd(model::SeriesKey()), Count(view));
  }
  // Attempts that close no step count, too.
  void JudgeClock(const StepView& view, const ClockView& /*clock*/) override {
    const size_t run = FindOrAdd(model::SeriesKey());
    const Verdict verdict = Count(view);
    if (!subjects()[run].judge.firing() && verdict.breach) PushVerdict(view, run, verdict);
  }

  Verdict Count(const StepView& view) const {
    const int begun = view.progress.RestartsWithin(spec_.window_steps);
    return {
        .breach = begun > spec_.above, .value = static_cast<double>(begun), .base_step = view.step};
  }

  const RestartsSpec& spec_;
};

}  // namespace

RestartsSpec RestartsSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  RestartsSpec spec;
  spec.above = static_cast<int>(node.Require("above").Int({0, 1000}, 0));
  spec.window_steps = ParseSteps(node.Require("in"));
  return spec;
}

std::unique_ptr<RuleJudge> RestartsSpec::NewJudge(std::shared_ptr<const Rule> rule) const {
  return std::make_unique<Restarts>(*this, std::move(rule));
}

}  // namespace foreshock::rules
