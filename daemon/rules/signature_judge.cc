#include "daemon/rules/signature_judge.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/rule_set.h"

namespace foreshock {

const LiveAlert& AlertsView::Live(AlertRef ref) const {
  return ref.signature ? signatures[ref.index].alert() : rules[ref.index].alert();
}

bool AlertsView::Present(AlertRef ref, int64_t window) const {
  if (Firing(ref)) return true;
  if (window <= 0) return false;
  const std::optional<int64_t> resolved =
      ref.signature ? signatures[ref.index].last_resolved() : rules[ref.index].last_resolved();
  return resolved.has_value() && step >= *resolved && step - *resolved <= window;
}

namespace {

bool Healed(const Condition& condition, const AlertsView& view) {
  const RuleJudge& rule = view.rules[condition.alert.index];
  return rule.last_resolved() == view.step && rule.last_fired().has_value() &&
         view.step - *rule.last_fired() <= condition.within;
}

bool SameLayer(const Condition& condition, const AlertsView& view) {
  std::vector<uint32_t> common;
  for (size_t i = 0; i < condition.of.size(); ++i) {
    const LiveAlert& alert = view.Live(condition.of[i].alert);
    if (!alert.active) return false;
    if (i == 0) {
      common = alert.layers;
      continue;
    }
    std::erase_if(common, [&alert](uint32_t layer) {
      return std::find(alert.layers.begin(), alert.layers.end(), layer) == alert.layers.end();
    });
  }
  return !common.empty();
}

void AddAll(const std::vector<uint32_t>& from, std::vector<uint32_t>* to) {
  for (const uint32_t x : from) {
    if (std::find(to->begin(), to->end(), x) == to->end()) to->push_back(x);
  }
}

}  // namespace

bool Holds(const Condition& condition, const AlertsView& view, int64_t window) {
  const auto holds = [&](const Condition& c) { return Holds(c, view, window); };
  const auto& of = condition.of;
  switch (condition.kind) {
    case Condition::Kind::kAlert:
      return view.Present(condition.alert, window);
    case Condition::Kind::kAll:
      return std::all_of(of.begin(), of.end(), holds);
    case Condition::Kind::kAny:
      return std::any_of(of.begin(), of.end(), holds);
    case Condition::Kind::kAtLeast:
      return std::count_if(of.begin(), of.end(), holds) >= condition.at_least;
    case Condition::Kind::kSameLayer:
      return SameLayer(condition, view);
    case Condition::Kind::kHealed:
      return Healed(condition, view);
  }
  return false;
}

void PresentAlerts(const Condition& condition, const AlertsView& view, int64_t window,
                   std::vector<AlertRef>* out) {
  if (!condition.of.empty()) {
    for (const Condition& child : condition.of) PresentAlerts(child, view, window, out);
    return;
  }
  const bool present = condition.kind == Condition::Kind::kHealed
                           ? Healed(condition, view)
                           : view.Present(condition.alert, window);
  if (present && std::find(out->begin(), out->end(), condition.alert) == out->end()) {
    out->push_back(condition.alert);
  }
}

// True while the signature must still wait for the samples of another rule.
bool SignatureJudge::Wait(const Signature& signature, const AlertsView& view) {
  if (!signature.wait_while.has_value() || !view.Firing(*signature.wait_while)) return false;
  return waited_samples_ < signature.wait_samples;
}

bool SignatureJudge::Starts(const Signature& signature, size_t self, const AlertsView& view) {
  const auto firing = [&view](AlertRef ref) { return view.Firing(ref); };
  const auto brewing = [&view](AlertRef ref) {
    return view.rules[ref.index].Brewing(view.set.rules[ref.index]);
  };
  bool holds = Holds(signature.when, view, signature.window_steps) &&
               std::none_of(signature.absent.begin(), signature.absent.end(), firing) &&
               std::none_of(signature.not_brewing.begin(), signature.not_brewing.end(), brewing);
  if (holds && signature.attempt_start_steps > 0) {
    holds = view.resumed && view.step - view.attempt_start < signature.attempt_start_steps;
    // What fires since before the resume says nothing of it.
    std::vector<AlertRef> present;
    PresentAlerts(signature.when, view, signature.window_steps, &present);
    holds = holds && std::any_of(present.begin(), present.end(), [&view](AlertRef ref) {
              return view.Live(ref).attempt == view.attempt;
            });
  }
  if (holds && signature.fallback) {
    for (size_t i = 0; i < view.signatures.size() && holds; ++i) {
      const SignatureJudge& other = view.signatures[i];
      holds = i == self || !other.alert().active || SeverityRank(other.severity()) == 0;
    }
  }
  if (!holds) {
    since_.reset();
    return false;
  }

  std::vector<AlertRef> present;
  PresentAlerts(signature.when, view, signature.window_steps, &present);
  const bool sampled = std::any_of(present.begin(), present.end(), [&view](AlertRef ref) {
    return !ref.signature && view.rules[ref.index].judged();
  });
  if (!since_.has_value()) {
    since_ = view.step;
    samples_since_ = 0;
    waited_samples_ = 0;
  } else {
    if (sampled) ++samples_since_;
    if (signature.wait_while.has_value() && view.rules[signature.wait_samples_of.index].judged()) {
      ++waited_samples_;
    }
  }
  if (Wait(signature, view)) return false;
  const Length& length = signature.pending_for;
  return (length.in_samples ? samples_since_ : view.step - *since_) >= length.count;
}

bool SignatureJudge::Confirm(const Signature& signature, const AlertsView& view) {
  bool raised = false;
  for (const Confirmation& confirmation : signature.confirmations) {
    const bool more = SeverityRank(confirmation.severity) > SeverityRank(severity_);
    if (!more && confirmation.confidence == confidence_) continue;
    if (SeverityRank(confirmation.severity) < SeverityRank(severity_)) continue;
    if (!Holds(confirmation.when, view, signature.window_steps)) continue;
    severity_ = confirmation.severity;
    confidence_ = confirmation.confidence;
    raised = true;
  }
  return raised;
}

bool SignatureJudge::Collect(const Signature& signature, const AlertsView& view) {
  std::vector<AlertRef> present;
  PresentAlerts(signature.when, view, signature.window_steps, &present);
  bool all_layers = false;
  std::vector<uint32_t> layers = alert_.layers;
  std::vector<uint32_t> ranks = alert_.ranks;
  for (const AlertRef ref : present) {
    const LiveAlert& alert = view.Live(ref);
    all_layers = all_layers || alert.all_layers;
    AddAll(alert.layers, &layers);
    AddAll(alert.ranks, &ranks);  // in the order in which they came
  }
  std::sort(layers.begin(), layers.end());
  size_t layers_known = 0;
  bool speaks_of_layers = false;
  std::vector<bool> evidence;
  for (const AlertRef ref : signature.evidence) {
    layers_known = std::max(layers_known, view.rules[ref.index].layers_known());
    const auto& indicators = view.set.rules[ref.index].input.indicators;
    const IndicatorInfo* info = indicators.empty() ? nullptr : FindIndicator(indicators[0]);
    speaks_of_layers = speaks_of_layers || (info != nullptr && info->per_layer);
    evidence.push_back(view.Firing(ref));
  }
  for (const AlertRef ref : signature.absent) evidence.push_back(view.Firing(ref));
  if (layers.empty()) {
    // Evidence without a layer, such as the learning rate, concerns all of them.
    all_layers = ranks.empty() && speaks_of_layers;
  } else if (layers_known > 1 && layers.size() >= layers_known) {
    all_layers = true;
  }
  const bool changed = layers != alert_.layers || ranks != alert_.ranks ||
                       all_layers != alert_.all_layers || evidence != evidence_;
  alert_.layers = std::move(layers);
  alert_.ranks = std::move(ranks);
  alert_.all_layers = all_layers;
  evidence_ = std::move(evidence);
  return changed;
}

bool SignatureJudge::Judge(const Signature& signature, size_t self, const AlertsView& view) {
  std::vector<AlertRef> present;
  if (alert_.active) {
    PresentAlerts(signature.when, view, signature.window_steps, &present);
    if (!present.empty()) {
      held_step_ = view.step;
      limit_.Seen();
    }
    // A fallback gives way to a signature that names the fault.
    bool superseded = false;
    for (size_t i = 0; i < view.signatures.size() && signature.fallback; ++i) {
      superseded = superseded || (i != self && view.signatures[i].alert().active &&
                                  !view.set.signatures[i].fallback &&
                                  SeverityRank(view.signatures[i].severity()) > 0);
    }
    const bool over = present.empty() && view.step - held_step_ >= signature.keep_firing_for &&
                      !limit_.Holds(signature.rate_limit, view.step);
    if (over || superseded) {
      alert_.active = false;
      since_.reset();
      last_resolved_ = view.step;
      return true;
    }
    const bool raised = Confirm(signature, view);
    return Collect(signature, view) || raised;
  }
  if (!Starts(signature, self, view)) return false;

  PresentAlerts(signature.when, view, signature.window_steps, &present);
  alert_ = LiveAlert();
  alert_.active = true;
  alert_.firing_step = view.step;
  alert_.pending_step = view.step;
  alert_.base_step = view.step;
  for (const AlertRef ref : present) {
    alert_.pending_step = std::min(alert_.pending_step, view.Live(ref).pending_step);
    alert_.base_step = std::min(alert_.base_step, view.Live(ref).base_step);
  }
  limit_.Start(signature.rate_limit, view.step);
  severity_ = signature.severity;
  confidence_ = signature.confidence;
  held_step_ = view.step;
  since_.reset();
  Confirm(signature, view);
  Collect(signature, view);
  return true;
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

std::string SignatureJudge::Describe(const Signature& signature, const AlertsView& view,
                                     v1::Alert* out) const {
  std::vector<AlertRef> present;
  PresentAlerts(signature.when, view, signature.window_steps, &present);
  std::erase_if(present, [](AlertRef ref) { return ref.signature; });
  const auto earlier = [&view](AlertRef a, AlertRef b) {
    const LiveAlert& x = view.Live(a);
    const LiveAlert& y = view.Live(b);
    return std::pair(x.layers.empty(), x.pending_step) <
           std::pair(y.layers.empty(), y.pending_step);
  };
  std::string measure;
  const auto first = std::min_element(present.begin(), present.end(), earlier);
  if (first != present.end()) {
    const Rule& rule = view.set.rules[first->index];
    view.rules[first->index].Describe(rule, out);
    measure = MeasureText(rule);
  }
  if (!alert_.ranks.empty()) out->set_rank(alert_.ranks.front());

  std::vector<v1::Evidence> moved;
  std::vector<v1::Evidence> still;
  const auto add = [&](AlertRef ref, bool wanted) {
    const Rule& rule = view.set.rules[ref.index];
    const LiveAlert& alert = view.Live(ref);
    v1::Evidence evidence;
    evidence.set_rule(rule.name);
    if (!rule.input.indicators.empty()) evidence.set_indicator(rule.input.indicators[0]);
    evidence.set_supports(alert.active == wanted);
    if (alert.active) {
      v1::Alert place;
      view.rules[ref.index].Describe(rule, &place);
      evidence.mutable_layers()->Add(alert.layers.begin(), alert.layers.end());
      evidence.set_step(alert.pending_step);
      evidence.set_text(absl::StrCat(
          "since step ", alert.pending_step, ", value ", NumberText(place.value()),
          place.has_baseline() ? absl::StrCat(", baseline ", NumberText(place.baseline())) : ""));
      moved.push_back(std::move(evidence));
    } else {
      evidence.set_text("did not move");
      still.push_back(std::move(evidence));
    }
  };
  for (const AlertRef ref : signature.evidence) add(ref, /*wanted=*/true);
  for (const AlertRef ref : signature.absent) {
    const bool listed = std::find(signature.evidence.begin(), signature.evidence.end(), ref) !=
                        signature.evidence.end();
    if (!ref.signature && !listed) add(ref, /*wanted=*/false);
  }
  std::stable_sort(moved.begin(), moved.end(), [](const v1::Evidence& a, const v1::Evidence& b) {
    return a.step() < b.step();
  });
  for (v1::Evidence& evidence : moved) *out->add_evidence() = std::move(evidence);
  for (v1::Evidence& evidence : still) *out->add_evidence() = std::move(evidence);
  return measure;
}

void SignatureJudge::Save(rules::AlertState* state) const {
  state->set_base_step(alert_.base_step);
  state->mutable_ranks()->Add(alert_.ranks.begin(), alert_.ranks.end());
  state->set_severity(severity_);
  state->set_confidence(confidence_);
  for (const bool fires : evidence_) state->add_evidence(fires);
  limit_.Save(state->mutable_rate_limit());
}

void SignatureJudge::Restore(const v1::Alert& alert, const rules::AlertState& state,
                             bool replayed) {
  alert_ = LiveAlertOf(alert, state);
  severity_ = state.severity();
  confidence_ = state.confidence();
  evidence_.assign(state.evidence().begin(), state.evidence().end());
  if (replayed) return;
  limit_.Restore(state.rate_limit());
  since_.reset();
  held_step_ = alert.firing_step();
}

}  // namespace foreshock
