#include "daemon/rules/signature_judge.h"

#include <algorithm>
#include <utility>

#include "daemon/base/archive.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::rules {

namespace {

constexpr int64_t kWaitStepsMax = 200;

void AddAll(const std::vector<uint32_t>& from, std::vector<uint32_t>* to) {
  for (const uint32_t x : from) {
    if (std::find(to->begin(), to->end(), x) == to->end()) to->push_back(x);
  }
}

}  // namespace

std::vector<AlertRef> SignatureJudge::Present(const AlertsView& view, Parts parts) const {
  std::vector<AlertRef> present;
  PresentAlerts(signature_->when, view, signature_->window_steps, parts, &present);
  return present;
}

// Whether it must still wait for the samples of another rule. One that has judged nothing yet, or
// whose samples no longer come, has nothing to add.
bool SignatureJudge::Waits(const AlertsView& view) const {
  const Signature& signature = *signature_;
  return waited_samples_ < signature.wait_samples && view.step - *since_ < kWaitStepsMax &&
         view.rules[signature.wait_samples_of.index]->has_judged() &&
         (!signature.wait_while.has_value() || view.Firing(*signature.wait_while));
}

bool SignatureJudge::MayStart(const AlertsView& view) const {
  const Signature& signature = *signature_;
  if (!Holds(signature.when, view, signature.window_steps)) return false;
  if (signature.attempt_start_steps == 0) return true;
  if (!view.resumed || view.step - view.attempt_start >= signature.attempt_start_steps) {
    return false;
  }
  // What fires since before the resume says nothing of it.
  const std::vector<AlertRef> present = Present(view);
  return std::any_of(present.begin(), present.end(),
                     [&view](AlertRef ref) { return view.Live(ref).attempt == view.attempt; });
}

bool SignatureJudge::Starts(const AlertsView& view, bool told_instead) {
  if (told_instead || !MayStart(view)) {
    since_.reset();
    return false;
  }
  const std::vector<AlertRef> present = Present(view);
  const bool sampled = std::any_of(present.begin(), present.end(), [&view](AlertRef ref) {
    return !ref.signature && view.rules[ref.index]->judged();
  });
  if (!since_.has_value()) {
    since_ = view.step;
    samples_since_ = 0;
    waited_samples_ = 0;
  } else {
    if (sampled) ++samples_since_;
    if (signature_->wait_samples > 0 && view.rules[signature_->wait_samples_of.index]->judged()) {
      ++waited_samples_;
    }
  }
  if (Waits(view)) return false;
  const Length& length = signature_->pending_for;
  return (length.in_samples ? samples_since_ : view.step - *since_) >= length.count;
}

bool SignatureJudge::Confirm(const AlertsView& view) {
  bool raised = false;
  for (const Confirmation& confirmation : signature_->confirmations) {
    const bool more = SeverityRank(confirmation.severity) > SeverityRank(severity_);
    if (!more && confirmation.confidence == confidence_) continue;
    if (SeverityRank(confirmation.severity) < SeverityRank(severity_)) continue;
    if (!Holds(confirmation.when, view, signature_->window_steps)) continue;
    severity_ = confirmation.severity;
    confidence_ = confirmation.confidence;
    raised = true;
  }
  return raised;
}

bool SignatureJudge::Collect(const AlertsView& view) {
  bool all_layers = false;
  std::vector<uint32_t> layers = alert_.layers;
  std::vector<uint32_t> ranks = alert_.ranks;
  for (const AlertRef ref : Present(view, Parts::kHolding)) {
    const LiveAlert& alert = view.Live(ref);
    all_layers = all_layers || alert.all_layers;
    AddAll(alert.layers, &layers);
    AddAll(alert.ranks, &ranks);  // in the order in which they came
  }
  std::sort(layers.begin(), layers.end());
  size_t layers_known = 0;
  std::vector<bool> evidence;
  for (const AlertRef ref : signature_->evidence) {
    const RuleJudge& judge = *view.rules[ref.index];
    layers_known = std::max(layers_known, judge.layers_known());
    evidence.push_back(view.Firing(ref));
  }
  for (const AlertRef ref : signature_->against) evidence.push_back(view.Firing(ref));
  if (layers_known > 1 && layers.size() >= layers_known) all_layers = true;
  const bool changed = layers != alert_.layers || ranks != alert_.ranks ||
                       all_layers != alert_.all_layers || evidence != evidence_;
  alert_.layers = std::move(layers);
  alert_.ranks = std::move(ranks);
  alert_.all_layers = all_layers;
  evidence_ = std::move(evidence);
  return changed;
}

bool SignatureJudge::Judge(const AlertsView& view, const Contest& contest, size_t self) {
  if (!alert_.active) {
    if (!Starts(view, !contest.Eligible(self) || contest.Better(self).has_value())) return false;
    Start(view);
    return true;
  }
  const std::vector<AlertRef> alerts = Present(view);
  movers_.Note(view, *signature_, alerts);
  const bool present = !alerts.empty();
  if (present) {
    held_step_ = view.step;
    limit_.Seen();
  }
  const bool over = !present && view.step - held_step_ >= signature_->keep_firing_for &&
                    !limit_.Holds(signature_->rate_limit, view.step);
  if (over || contest.Better(self, kLead).has_value()) {
    alert_.active = false;
    since_.reset();
    last_resolved_ = view.step;
    return true;
  }
  NoteTerms(view);
  const bool raised = Confirm(view);
  return Collect(view) || raised;
}

void SignatureJudge::NoteTerms(const AlertsView& view) {
  shown_.resize(signature_->score.size());
  for (size_t i = 0; i < shown_.size(); ++i) {
    shown_[i] = shown_[i] || Holds(signature_->score[i].when, view, signature_->window_steps);
  }
}

void SignatureJudge::Start(const AlertsView& view) {
  alert_ = LiveAlert();
  alert_.active = true;
  alert_.firing_step = view.step;
  alert_.pending_step = view.step;
  alert_.base_step = view.step;
  const std::vector<AlertRef> present = Present(view);
  movers_ = Movers();
  movers_.Note(view, *signature_, present);
  for (const AlertRef ref : present) {
    alert_.pending_step = std::min(alert_.pending_step, view.Live(ref).pending_step);
    alert_.base_step = std::min(alert_.base_step, view.Live(ref).base_step);
  }
  limit_.Start(signature_->rate_limit, view.step);
  severity_ = signature_->severity;
  confidence_ = signature_->confidence;
  held_step_ = view.step;
  since_.reset();
  shown_.clear();
  NoteTerms(view);
  Confirm(view);
  Collect(view);
}

void SignatureJudge::Silence() {
  if (alert_.active) limit_.TakeBack();
  alert_ = LiveAlert();
  since_.reset();
}

void SignatureJudge::Resume(int64_t step) {
  since_.reset();
  held_step_ = std::min(held_step_, step);
  limit_.Resume(step);
}

std::string SignatureJudge::Describe(const AlertsView& view, v1::Alert* out) const {
  std::string measure;
  const std::optional<AlertRef> first = movers_.First(view, *signature_, alert_.active);
  if (first.has_value()) {
    const RuleJudge& judge = *view.rules[first->index];
    if (alert_.active && judge.alert().active) {
      judge.Describe(out);
    } else {
      judge.DescribeRecord(movers_.RecordOf(view, *first), out);
    }
    measure = MeasureText(judge.rule());
  }
  if (!alert_.ranks.empty()) out->set_rank(alert_.ranks.front());
  movers_.ShowIn(view, *signature_, out);
  return measure;
}

void SignatureJudge::SaveState(base::Archive* archive) {
  AlertState state{.base_step = alert_.base_step, .ranks = alert_.ranks};
  archive->Take(&state, &severity_, &confidence_, &evidence_, &shown_, &movers_, &limit_);
}

bool SignatureJudge::Restore(const v1::Alert& alert, base::Archive* stored, bool replayed) {
  AlertState state;
  Movers movers;
  RateLimit limit;
  stored->Take(&state, &severity_, &confidence_, &evidence_, &shown_, &movers, &limit);
  if (!stored->AtEnd()) {
    Silence();
    return false;
  }
  alert_ = LiveAlertOf(alert, state);
  if (replayed) return true;
  movers_ = std::move(movers);
  limit_ = limit;
  since_.reset();
  held_step_ = alert.firing_step();
  return true;
}

}  // namespace foreshock::rules
