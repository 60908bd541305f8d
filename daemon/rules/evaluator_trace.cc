// What the rules made of the newest step, for those who draw it.

#include "daemon/rules/evaluator_impl.h"

namespace foreshock {
namespace {

// Where a value would be abnormal; only where that is one number.
std::optional<double> LimitOf(const Detector& detector, const std::optional<double>& baseline) {
  switch (detector.kind) {
    case Detector::Kind::kThreshold:
      return detector.limit;
    case Detector::Kind::kRelative:
      if (baseline.has_value()) return detector.limit * *baseline;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<JudgedSeries> RuleJudge::Judged(const Rule& rule, int64_t step) const {
  std::vector<JudgedSeries> judged;
  for (const Subject& subject : subjects_) {
    if (subject.judge.judged_step() != step) continue;
    judged.push_back({.layer = subject.layer,
                      .unit = subject.unit,
                      .unit_id = subject.unit_id,
                      .unit_name = subject.unit_name,
                      .value = subject.judge.value(),
                      .baseline = subject.judge.baseline(),
                      .limit = LimitOf(rule.detector, subject.judge.baseline()),
                      .measured = subject.judge.measured(),
                      .breaching = subject.judge.breaching(),
                      .firing = subject.judge.firing()});
  }
  return judged;
}

std::vector<JudgedSeries> Evaluator::Judged(absl::string_view rule) const {
  return impl_->Judged(rule);
}

std::vector<JudgedSeries> Evaluator::Impl::Judged(absl::string_view rule) const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (set_->rules[i].name == rule) return rules_[i].Judged(set_->rules[i], last_step_);
  }
  return {};
}

}  // namespace foreshock
