#include "daemon/rules/detectors/skipped.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {
namespace {

constexpr int64_t kStepsMax = 10'000;

class Skipped final : public RuleJudge {
 public:
  Skipped(const SkippedSpec& spec, std::shared_ptr<const Rule> rule)
      : RuleJudge(std::move(rule)), spec_(spec) {}

  void DescribeSource(v1::Alert* /*out*/) const override {}
  std::string Sentence() const override {
    return absl::StrCat("the optimizer step was skipped in ", NumberText(worst_value()),
                        " of the last ", spec_.of_steps, " steps");
  }

 private:
  void JudgeStep(const StepView& view) override {
    newest_.push_back(view.row.skipped);
    if (static_cast<int64_t>(newest_.size()) > spec_.of_steps) newest_.pop_front();
    const auto skipped = std::count(newest_.begin(), newest_.end(), true);
    const auto first = std::find(newest_.begin(), newest_.end(), true);
    const size_t run = FindOrAdd(model::SeriesKey());
    const double healed = subjects()[run].judge.firing() ? 0.5 : 1;
    const double needed = healed * spec_.share * static_cast<double>(spec_.of_steps);
    PushVerdict(view, run,
                {.breach = static_cast<double>(skipped) >= needed,
                 .value = static_cast<double>(skipped),
                 .base_step = view.step - std::distance(first, newest_.end())});
  }

  void OwnFields(base::Archive* archive) override { archive->Take(&newest_); }

  const SkippedSpec& spec_;
  std::deque<bool> newest_;  // whether, the newest last
};

}  // namespace

SkippedSpec SkippedSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  SkippedSpec spec;
  spec.share = node.Get("share").Double({0.001, 1}, spec.share);
  const yaml::YamlNode of = node.Get("of");
  if (of.present()) spec.of_steps = ParseSteps(of);
  if (spec.of_steps > kStepsMax) {
    of.Error(
        absl::StrCat("`of` is ", spec.of_steps, " steps; at most ", kStepsMax, " are allowed"));
    spec.of_steps = kStepsMax;
  }
  return spec;
}

std::unique_ptr<RuleJudge> SkippedSpec::NewJudge(std::shared_ptr<const Rule> rule) const {
  return std::make_unique<Skipped>(*this, std::move(rule));
}

}  // namespace foreshock::rules
