#include "daemon/rules/condition.h"

#include <algorithm>
#include <optional>

#include "daemon/rules/signature_judge.h"

namespace foreshock::rules {

const LiveAlert& AlertsView::Live(AlertRef ref) const {
  return ref.signature ? signatures[ref.index].alert() : rules[ref.index]->alert();
}

bool AlertsView::Present(AlertRef ref, int64_t window) const {
  if (Firing(ref)) return true;
  if (window <= 0) return false;
  const std::optional<int64_t> resolved =
      ref.signature ? signatures[ref.index].last_resolved() : rules[ref.index]->last_resolved();
  return resolved.has_value() && step >= *resolved && step - *resolved <= window;
}

namespace {

bool Healed(const Condition& condition, const AlertsView& view) {
  const RuleJudge& rule = *view.rules[condition.alert.index];
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
    case Condition::Kind::kBrewing:
      return view.rules[condition.alert.index]->Brewing();
  }
  return false;
}

void PresentAlerts(const Condition& condition, const AlertsView& view, int64_t window, Parts parts,
                   std::vector<AlertRef>* out) {
  const bool all_or_nothing = parts == Parts::kHolding && !condition.of.empty();
  if (all_or_nothing && !Holds(condition, view, window)) return;
  if (!condition.of.empty()) {
    for (const Condition& child : condition.of) PresentAlerts(child, view, window, parts, out);
    return;
  }
  if (Holds(condition, view, window) &&
      std::find(out->begin(), out->end(), condition.alert) == out->end()) {
    out->push_back(condition.alert);
  }
}

}  // namespace foreshock::rules
