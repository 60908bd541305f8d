#include "daemon/rules/detectors/hang.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {
namespace {

constexpr yaml::YamlRange<absl::Duration> kWait = {absl::Milliseconds(100), absl::Hours(24 * 30)};

class Hang final : public RuleJudge {
 public:
  Hang(const HangSpec& spec, std::shared_ptr<const Rule> rule)
      : RuleJudge(std::move(rule)), spec_(spec) {}

  bool NeedsClock() const override { return true; }
  void DescribeSource(v1::Alert* out) const override { out->set_indicator("train.step_seconds"); }
  std::string Sentence() const override {
    std::string text = absl::StrCat("no step closed for ", NumberText(worst_value()), " s");
    if (worst() != nullptr && worst()->judge.baseline().has_value()) {
      absl::StrAppend(&text, ", where one usually takes ", NumberText(*worst()->judge.baseline()),
                      " s");
    }
    if (!alert().ranks.empty()) {
      absl::StrAppend(&text, "; farthest back: ", RanksText(alert().ranks));
    }
    return text;
  }

 private:
  // A step has closed, so there is no hang.
  void JudgeStep(const StepView& view) override {
    PushVerdict(view, FindOrAdd(model::SeriesKey()), {});
  }

  void JudgeClock(const StepView& view, const ClockView& clock) override {
    const size_t run = FindOrAdd(model::SeriesKey());
    const double waited = view.progress.waiting_seconds();
    const bool breach = clock.life == Life::kLive && waited >= WaitLimit(view.progress);
    // Only a step ends the alert, or the run's own end.
    const bool firing = subjects()[run].judge.firing();
    if (firing ? clock.life != Life::kEnded : !breach) return;
    if (breach) ranks_now() = clock.hindmost();
    PushVerdict(view, run,
                {.breach = breach,
                 .value = waited,
                 .baseline = view.progress.median_step_seconds(),
                 .base_step = view.step});
  }

  // How long a run may wait for its next step, in seconds.
  double WaitLimit(const Progress& progress) const {
    if (!progress.step_closed()) return spec_.first_step_seconds;
    return std::max(spec_.at_least_seconds,
                    spec_.intervals * progress.median_step_seconds().value_or(0));
  }

  const HangSpec& spec_;
};

}  // namespace

HangSpec HangSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  HangSpec spec;
  spec.intervals = static_cast<int>(node.Get("intervals").Int({1, 1'000'000}, 20));
  const absl::Duration at_least = node.Get("at_least").Duration(kWait, absl::Minutes(5));
  spec.at_least_seconds = absl::ToDoubleSeconds(at_least);
  spec.first_step_seconds = absl::ToDoubleSeconds(
      node.Get("first_step").Duration(kWait, std::max(at_least, absl::Minutes(30))));
  return spec;
}

std::unique_ptr<RuleJudge> HangSpec::NewJudge(std::shared_ptr<const Rule> rule) const {
  return std::make_unique<Hang>(*this, std::move(rule));
}

}  // namespace foreshock::rules
