#include "daemon/rules/movers.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rules/alert_text.h"

namespace foreshock::rules {
namespace {

std::string ValueText(const v1::Alert& alert) {
  return absl::StrCat(
      "value ", NumberText(alert.value()),
      alert.has_baseline() ? absl::StrCat(", baseline ", NumberText(alert.baseline())) : "");
}

// "since step 420, value 6.97, baseline 2"; of one that is over "since step 420, over at step 480,
// at worst value 6.97, baseline 2".
std::string MoverText(const Mover& mover, const RuleJudge& judge) {
  std::string text = absl::StrCat("since step ", mover.step, ", ");
  v1::Alert shown;
  if (judge.alert().active) {
    judge.Describe(&shown);
    return absl::StrCat(text, ValueText(shown));
  }
  if (mover.over.has_value()) absl::StrAppend(&text, "over at step ", *mover.over, ", ");
  mover.record.ShowIn(&shown);
  return absl::StrCat(text, "at worst ", ValueText(shown));
}

}  // namespace

const Mover* Movers::Find(const AlertsView& view, AlertRef rule) const {
  const auto found = movers_.find(view.rules[rule.index]->rule().name);
  return found == movers_.end() ? nullptr : &found->second;
}

void Movers::Note(const AlertsView& view, const Signature& signature,
                  const std::vector<AlertRef>& present) {
  const auto note = [&](AlertRef ref, bool named) {
    const RuleJudge& judge = *view.rules[ref.index];
    const LiveAlert& alert = judge.alert();
    // What is only brewing has no alert yet.
    if (!alert.active && (!named || alert.record.empty())) {
      const auto over = movers_.find(judge.rule().name);
      if (over != movers_.end() && !over->second.over.has_value()) {
        over->second.over = judge.last_resolved();
      }
      return;
    }
    const auto [found, began] = movers_.try_emplace(judge.rule().name);
    Mover& mover = found->second;
    if (began) mover.step = alert.pending_step;
    mover.over = alert.active ? std::nullopt : judge.last_resolved();
    mover.named = mover.named || named;
    mover.layers = alert.layers;
    mover.record.Worsen(alert.record);
  };
  for (const AlertRef ref : signature.evidence) {
    note(ref, std::find(present.begin(), present.end(), ref) != present.end());
  }
  for (const AlertRef ref : signature.against) note(ref, /*named=*/false);
}

std::optional<AlertRef> Movers::First(const AlertsView& view, const Signature& signature,
                                      bool fires) const {
  std::optional<AlertRef> first;
  std::tuple<bool, bool, int64_t> least;
  for (const AlertRef ref : signature.evidence) {
    const Mover* const mover = Find(view, ref);
    if (mover == nullptr || !mover->named) continue;
    const std::tuple order(fires && !view.Firing(ref), mover->layers.empty(), mover->step);
    if (first.has_value() && order >= least) continue;
    first = ref;
    least = order;
  }
  return first;
}

void Movers::ShowIn(const AlertsView& view, const Signature& signature, v1::Alert* out) const {
  std::vector<v1::Evidence> moved;
  std::vector<v1::Evidence> still;
  const auto add = [&](AlertRef ref, bool wanted) {
    const RuleJudge& judge = *view.rules[ref.index];
    const Mover* const mover = Find(view, ref);
    v1::Evidence evidence;
    evidence.set_rule(judge.rule().name);
    const std::vector<std::string>& indicators = judge.rule().input.indicators;
    if (!indicators.empty()) evidence.set_indicator(indicators[0]);
    evidence.set_supports((mover != nullptr) == wanted);
    if (mover == nullptr) {
      evidence.set_text("did not move");
      still.push_back(std::move(evidence));
      return;
    }
    evidence.mutable_layers()->Add(mover->layers.begin(), mover->layers.end());
    evidence.set_step(mover->step);
    evidence.set_text(MoverText(*mover, judge));
    moved.push_back(std::move(evidence));
  };
  for (const AlertRef ref : signature.evidence) add(ref, /*wanted=*/true);
  for (const AlertRef ref : signature.against) add(ref, /*wanted=*/false);
  std::stable_sort(moved.begin(), moved.end(), [](const v1::Evidence& a, const v1::Evidence& b) {
    return a.step() < b.step();
  });
  for (v1::Evidence& evidence : moved) *out->add_evidence() = std::move(evidence);
  for (v1::Evidence& evidence : still) *out->add_evidence() = std::move(evidence);
}

}  // namespace foreshock::rules
