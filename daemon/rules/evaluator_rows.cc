// What is returned of an alert: its fields, its sentences, and the state a restart needs.

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/archive.h"
#include "daemon/base/stable_hash.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {
namespace {

void SayFlapping(const RateLimitSpec& limit, v1::Alert* alert) {
  (*alert->mutable_labels())["flapping"] = "true";
  AppendSentence(absl::StrCat("It has started ", limit.starts, " times in ", limit.steps,
                              " steps, so it goes on firing until it has been clear for ",
                              limit.steps, " steps."),
                 alert);
}

// Which other name has evidence in common with this one, or has taken its place.
void SayOtherNames(const AlertsView& view, const Contest& contest, size_t self, v1::Alert* alert) {
  const auto name = [&view](size_t i) { return view.signatures[i].signature().name; };
  const int points = contest.Points(self);
  if (!view.signatures[self].alert().active) {
    const std::optional<size_t> better = contest.Better(self, kLead);
    if (!better.has_value()) return;
    AppendSentence(absl::StrCat("Better explained by ", name(*better), " (",
                                contest.Points(*better), " points against ", points, ")."),
                   alert);
    return;
  }
  const std::optional<size_t> next = contest.NextTo(self, kLead);
  if (!next.has_value()) return;
  AppendSentence(absl::StrCat("Also possible: ", name(*next), " (", contest.Points(*next),
                              " points against ", points, ")."),
                 alert);
}

template <typename Judge>
std::string StateOf(Judge* judge) {
  uint32_t version = kAlertStateVersion;
  base::Archive archive;
  archive.Take(&version);
  judge->SaveState(&archive);
  return archive.bytes();
}

}  // namespace

void Evaluator::Impl::Name(const std::string& rule, LiveAlert* alert) const {
  if (!alert->id.empty()) return;
  alert->attempt = attempt_;
  alert->id = absl::StrFormat(
      "%016x", base::StableHash(absl::StrCat(run_, "\n", rule, "\n", attempt_, "\n",
                                             alert->pending_step, "\n", alert->firing_step)));
}

void Evaluator::Impl::Fill(const LiveAlert& live, int64_t step, v1::Alert* alert) const {
  alert->set_id(live.id);
  alert->set_run(run_);
  alert->set_attempt(live.attempt);
  alert->set_state(live.active ? v1::ALERT_STATE_FIRING : v1::ALERT_STATE_RESOLVED);
  alert->mutable_layers()->Add(live.layers.begin(), live.layers.end());
  alert->set_all_layers(live.all_layers);
  alert->set_pending_step(live.pending_step);
  alert->set_firing_step(live.firing_step);
  if (!live.active) alert->set_resolved_step(step);
  const int64_t healthy = std::max<int64_t>(live.base_step, 0);
  alert->set_last_healthy_step(healthy);
  const auto after = checkpoints_.upper_bound(healthy);
  if (after != checkpoints_.begin()) alert->set_checkpoint(std::prev(after)->second);
}

model::AlertRow Evaluator::Impl::RowOf(int64_t step, RuleJudge* judge) {
  const Rule& rule = judge->rule();
  model::AlertRow row;
  v1::Alert* alert = row.mutable_alert();
  Fill(judge->alert(), step, alert);
  alert->set_rule(rule.name);
  alert->set_severity(rule.severity);
  alert->set_fault(rule.fault);
  alert->mutable_labels()->insert(rule.labels.begin(), rule.labels.end());
  judge->Describe(alert);
  if (FamilyOf(rule.detector) == Family::kRun) {
    // The model is not ill: there is nothing to roll back.
    alert->clear_last_healthy_step();
    alert->clear_checkpoint();
  }
  WriteTexts(rule.annotations, MeasureText(rule), judge->Said(), "", alert);
  if (judge->flapping()) SayFlapping(rule.rate_limit, alert);
  row.set_state(StateOf(judge));
  judge->alert().reported = true;
  return row;
}

model::AlertRow Evaluator::Impl::RowOf(const AlertsView& view, const Contest& contest,
                                       size_t signature_index) {
  SignatureJudge* const judge = &signatures_[signature_index];
  const Signature& signature = judge->signature();
  model::AlertRow row;
  v1::Alert* alert = row.mutable_alert();
  Fill(judge->alert(), view.step, alert);
  alert->set_rule(signature.name);
  alert->set_severity(judge->severity());
  alert->set_fault(signature.fault);
  alert->mutable_labels()->insert(signature.labels.begin(), signature.labels.end());
  const std::string measure = judge->Describe(view, alert);
  WriteTexts(signature.annotations, measure, "", judge->confidence(), alert);
  SayOtherNames(view, contest, signature_index, alert);
  if (judge->flapping()) SayFlapping(signature.rate_limit, alert);
  row.set_state(StateOf(judge));
  judge->alert().reported = true;
  return row;
}

}  // namespace foreshock::rules
