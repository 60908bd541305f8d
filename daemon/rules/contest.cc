#include "daemon/rules/contest.h"

#include <algorithm>

#include "daemon/rules/signature_judge.h"

namespace foreshock::rules {
namespace {

bool Contains(const std::vector<AlertRef>& refs, AlertRef ref) {
  return std::find(refs.begin(), refs.end(), ref) != refs.end();
}

}  // namespace

Contest::Contest(const AlertsView& view) : view_(view), entries_(view.signatures.size()) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Signature& signature = view.signatures[i].signature();
    if (signature.score.empty()) continue;
    Entry& entry = entries_[i];
    entry.competes = true;
    const int64_t window = signature.window_steps;
    PresentAlerts(signature.when, view, window, Parts::kHolding, &entry.evidence);
    // One that fires lasts as long as anything of it is there.
    if (entry.evidence.empty() && view.signatures[i].alert().active) {
      PresentAlerts(signature.when, view, window, Parts::kAll, &entry.evidence);
    }
    entry.candidate = view.signatures[i].alert().active
                          ? !entry.evidence.empty()
                          : Holds(signature.when, view, signature.window_steps);
    if (!entry.candidate) continue;
    for (size_t t = 0; t < signature.score.size(); ++t) {
      const Term& term = signature.score[t];
      const bool shown = term.points > 0 && view.signatures[i].Shown(t);
      if (!shown && !Holds(term.when, view, signature.window_steps)) continue;
      entry.points += term.points;
      if (term.points > 0) {
        PresentAlerts(term.when, view, window, Parts::kHolding, &entry.evidence);
      }
    }
    std::erase_if(entry.evidence, [](AlertRef ref) { return ref.signature; });
  }
}

bool Contest::Eligible(size_t signature) const {
  return !entries_[signature].competes || entries_[signature].points > 0;
}

bool Contest::AccountsFor(size_t signature, const std::vector<AlertRef>& evidence) const {
  const Signature& by = view_.signatures[signature].signature();
  return std::all_of(evidence.begin(), evidence.end(), [&by](AlertRef ref) {
    return Contains(by.evidence, ref) || Contains(by.explains, ref);
  });
}

std::optional<size_t> Contest::Better(size_t signature, int lead) const {
  const Entry& own = entries_[signature];
  std::optional<size_t> best;
  if (!own.candidate) return best;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& other = entries_[i];
    if (i == signature || !other.candidate || other.points <= 0) continue;
    const bool enough =
        lead > 0 ? other.points >= own.points + lead
                 : other.points > own.points || (other.points == own.points && i < signature);
    if (!enough || !AccountsFor(i, own.evidence)) continue;
    if (!best.has_value() || other.points > entries_[*best].points) best = i;
  }
  return best;
}

std::optional<size_t> Contest::NextTo(size_t signature, int lead) const {
  const Entry& own = entries_[signature];
  std::optional<size_t> best;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& other = entries_[i];
    if (i == signature || !other.candidate || other.points <= 0) continue;
    if (other.points + lead < own.points) continue;
    const bool shares = std::any_of(other.evidence.begin(), other.evidence.end(),
                                    [&own](AlertRef ref) { return Contains(own.evidence, ref); });
    if (shares && (!best.has_value() || other.points > entries_[*best].points)) best = i;
  }
  return best;
}

}  // namespace foreshock::rules
