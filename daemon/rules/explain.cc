// What a rule or signature sees at the newest step, and what it lacks to fire.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {
namespace {

constexpr size_t kSeriesShownMax = 1000;

std::string LengthText(const Length& length) {
  return absl::StrCat(length.count, length.in_samples ? " samples" : " steps");
}

v1::ExplainedSeries SeriesOf(const Subject& subject) {
  const SeriesJudge& judge = subject.judge;
  v1::ExplainedSeries series;
  if (subject.series.layer >= 0) series.set_layer(static_cast<uint32_t>(subject.series.layer));
  series.set_unit(static_cast<v1::Unit>(subject.series.unit));
  series.set_unit_id(subject.series.unit_id);
  series.set_unit_name(subject.series.unit_name);
  if (judge.judged_step() >= 0) series.set_step(judge.judged_step());
  series.set_value(judge.value());
  if (judge.baseline().has_value()) series.set_baseline(*judge.baseline());
  if (judge.noise().has_value()) series.set_noise(*judge.noise());
  if (judge.limit().has_value()) series.set_limit(*judge.limit());
  if (judge.measured().has_value()) series.set_measured(*judge.measured());
  series.set_breaching(judge.breaching());
  series.set_firing(judge.firing());
  return series;
}

}  // namespace

std::string RuleJudge::SeriesMissing(const Subject& subject) const {
  const SeriesJudge& judge = subject.judge;
  const MachineState& state = judge.machine();
  const MachineParams& params = rule_->machine;
  if (state.phase == Phase::kFiring) {
    return absl::StrCat("it fires since step ", state.firing_step,
                        "; clear samples in a row: ", state.clear_run, " of the ",
                        params.clear_samples, " that end it");
  }
  if (!judge.known()) return WhyNotJudged(*rule_, rows_);
  if (state.phase == Phase::kPending) {
    std::string text = absl::StrCat("it breaches since step ", state.pending_step);
    if (params.hits > 1) {
      absl::StrAppend(&text, "; needs ", params.hits, " breaches among ", params.of, " samples");
    }
    if (params.pending_for.count > 0) {
      absl::StrAppend(&text, "; must last ", LengthText(params.pending_for));
    }
    return text;
  }
  if (judge.breaching()) return "it breaches";
  if (!judge.limit().has_value()) return "it does not breach";
  return absl::StrCat("it does not breach: ", NumberText(judge.value()), " against a limit of ",
                      NumberText(*judge.limit()));
}

std::string RuleJudge::Missing() const {
  if (alert_.active) return absl::StrCat("it fires since step ", alert_.firing_step);
  if (rows_.judged == 0) return absl::StrCat("it has judged no row: ", WhyNotJudged(*rule_, rows_));
  std::vector<uint32_t> layers;
  if (Quorate(/*brewing=*/false, &layers)) {
    return promise_.has_value() && !promise_->open()
               ? "enough series fire; its bound on false starts (`promise`) still holds it back"
               : "enough series fire";
  }
  const auto fires = [](const Subject& subject) { return subject.judge.firing(); };
  const auto breaches = [](const Subject& subject) { return subject.judge.breaching(); };
  const auto firing = std::count_if(subjects_.begin(), subjects_.end(), fires);
  const auto breaching = std::count_if(subjects_.begin(), subjects_.end(), breaches);
  return absl::StrCat("too few of its ", subjects_.size(), " series fire: ", firing, "; ",
                      breaching, " breach at their newest value");
}

void RuleJudge::Explain(v1::ExplainResponse* out) const {
  *out->add_judging() = Judging();
  out->set_measure(MeasureText(*rule_));
  out->set_firing(alert_.active);
  out->set_missing(Missing());
  std::vector<const Subject*> shown;
  for (const Subject& subject : subjects_) shown.push_back(&subject);
  std::stable_sort(shown.begin(), shown.end(), [](const Subject* a, const Subject* b) {
    return std::pair(!a->judge.firing(), !a->judge.breaching()) <
           std::pair(!b->judge.firing(), !b->judge.breaching());
  });
  shown.resize(std::min(shown.size(), kSeriesShownMax));
  for (const Subject* subject : shown) {
    v1::ExplainedSeries series = SeriesOf(*subject);
    series.set_missing(SeriesMissing(*subject));
    *out->add_series() = std::move(series);
  }
}

void SignatureJudge::Explain(const AlertsView& view, const Contest& contest, size_t self,
                             v1::ExplainResponse* out) const {
  Movers movers = movers_;
  if (!alert_.active) {
    movers = Movers();
    movers.Note(view, *signature_, Present(view));
  }
  v1::Alert shown;
  movers.ShowIn(view, *signature_, &shown);
  out->mutable_evidence()->Swap(shown.mutable_evidence());
  out->set_firing(alert_.active);
  const std::optional<size_t> better = contest.Better(self);
  if (alert_.active) {
    out->set_missing(absl::StrCat("it fires since step ", alert_.firing_step));
  } else if (!MayStart(view)) {
    out->set_missing("its `when` does not hold");
  } else if (!contest.Eligible(self)) {
    out->set_missing(absl::StrCat("it has ", contest.Points(self), " points; 1 is needed"));
  } else if (better.has_value()) {
    out->set_missing(absl::StrCat(view.signatures[*better].signature().name,
                                  " explains the same better: ", contest.Points(*better),
                                  " points against ", contest.Points(self)));
  } else if (Waits(view)) {
    out->set_missing("it waits for samples of another rule (`wait`)");
  } else {
    out->set_missing(
        absl::StrCat("its `when` holds; it must last ", LengthText(signature_->pending_for)));
  }
}

std::vector<v1::RuleJudging> Evaluator::Impl::Judging() const {
  std::vector<v1::RuleJudging> judging;
  for (const auto& judge : rules_) judging.push_back(judge->Judging());
  return judging;
}

void Evaluator::Impl::NoteVerdicts(int64_t step) {
  const bool judged = std::any_of(rules_.begin(), rules_.end(), [](const auto& judge) {
    return judge->has_verdict() && FamilyOf(judge->rule().detector) == Family::kSamples;
  });
  if (!judged) return;
  ++rows_judged_;
  if (!judged_from_.has_value()) judged_from_ = step;
}

v1::Judged Evaluator::Impl::JudgedSoFar() const {
  v1::Judged judged;
  for (const auto& judge : rules_) {
    if (FamilyOf(judge->rule().detector) != Family::kSamples) continue;
    judged.set_rules(judged.rules() + 1);
    if (judge->has_judged()) judged.set_rules_judging(judged.rules_judging() + 1);
  }
  judged.set_rows(rows_judged_);
  if (judged_from_.has_value()) judged.set_from_step(*judged_from_);
  return judged;
}

bool Evaluator::Impl::Explain(absl::string_view name, v1::ExplainResponse* out) const {
  for (const auto& judge : rules_) {
    if (judge->rule().name != name) continue;
    judge->Explain(out);
    return true;
  }
  const AlertsView view = View(last_step_);
  for (size_t i = 0; i < signatures_.size(); ++i) {
    if (signatures_[i].signature().name != name) continue;
    signatures_[i].Explain(view, Contest(view), i, out);
    return true;
  }
  return false;
}

std::vector<v1::RuleJudging> Evaluator::Judging() const { return impl_->Judging(); }
v1::Judged Evaluator::JudgedSoFar() const { return impl_->JudgedSoFar(); }
bool Evaluator::Explain(absl::string_view name, v1::ExplainResponse* out) const {
  return impl_->Explain(name, out);
}

}  // namespace foreshock::rules
