#include "daemon/rules/detectors/no_data.h"

#include <algorithm>
#include <utility>

#include "daemon/rules/parse.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {
namespace {

class NoData final : public RuleJudge {
 public:
  NoData(const NoDataSpec& spec, std::shared_ptr<const Rule> rule)
      : RuleJudge(std::move(rule)), spec_(spec) {}

 private:
  void JudgeStep(const StepView& view) override {
    for (const size_t index : fed()) {
      Subject& subject = subjects()[index];
      if (subject.last_step >= 0) {
        const int64_t gap = view.step - subject.last_step;
        subject.interval = std::max(gap, subject.gap);
        subject.gap = gap;
      }
      subject.last_step = view.step;
    }
    for (size_t i = 0; i < subjects().size(); ++i) {
      Subject& subject = subjects()[i];
      if (subject.last_step < 0) subject.last_step = view.step;  // an attempt counts from its start
      if (subject.interval == 0) continue;  // one sample says nothing of when the next is due
      const int64_t missed = (view.step - subject.last_step) / subject.interval;
      PushVerdict(view, i,
                  {.breach = missed >= spec_.intervals,
                   .value = static_cast<double>(missed),
                   .base_step = subject.last_step});
    }
  }

  const NoDataSpec& spec_;
};

}  // namespace

NoDataSpec NoDataSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  NoDataSpec spec;
  spec.intervals = static_cast<int>(node.Get("intervals").Int({1, 1000}, 3));
  return spec;
}

std::unique_ptr<RuleJudge> NoDataSpec::NewJudge(std::shared_ptr<const Rule> rule) const {
  return std::make_unique<NoData>(*this, std::move(rule));
}

}  // namespace foreshock::rules
