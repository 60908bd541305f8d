// Going on after a restart or with other rules.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/base/check.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {

// An alert that priming brought about and that no stored row knows was never reported: it ends here
// and begins again if its condition still holds. A stored alert whose rule is gone ends.
std::vector<model::AlertRow> Evaluator::Impl::EndPriming(int64_t step) {
  primed_ = false;
  StartReplaced(std::numeric_limits<int64_t>::max());
  if (last_step_ != std::numeric_limits<int64_t>::min()) coverage_.Forgive(last_step_);
  for (const auto& rule : rules_) {
    if (rule->alert().active && !rule->alert().reported) rule->Silence();
  }
  for (SignatureJudge& signature : signatures_) {
    if (signature.alert().active && !signature.alert().reported) signature.Silence();
  }
  for (model::AlertRow& row : orphans_) {
    row.mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
    row.mutable_alert()->set_resolved_step(step);
    WriteEnd("its rule was changed or removed before a restart", row.mutable_alert());
  }
  return std::exchange(orphans_, {});
}

void Evaluator::Impl::PrimeOvertaken(const model::ClosedStep& closed) {
  if (closed.row.step <= last_step_) return;
  for (const model::Sample& sample : closed.samples) {
    const Slot& slot = slots_[SlotOf(sample.series)];
    const double value = slot.store_f32 ? static_cast<float>(sample.value) : sample.value;
    for (const Feed& feed : slot.feeds) {
      if (!ComparesAttempts(feed.judge->rule().detector)) continue;
      feed.judge->Feed(feed.subject, feed.component, value, sample.flags);
    }
  }
  for (const auto& judge : rules_) judge->TakeOvertaken(closed.row.step);
}

absl::Status Evaluator::Impl::Restore(const model::AlertRow& row) {
  const v1::Alert& alert = row.alert();
  if (alert.state() == v1::ALERT_STATE_RESOLVED) return absl::OkStatus();
  primed_ = true;
  StartReplaced(std::numeric_limits<int64_t>::max());
  const auto restore = [&](auto* judge) -> absl::Status {
    uint32_t version = 0;
    base::Archive state(row.state());
    state.Take(&version);
    // The replayed state is newer than the row's.
    const bool replayed = judge->alert().active && judge->alert().id == alert.id();
    if (version == kAlertStateVersion && judge->Restore(alert, &state, replayed)) {
      return absl::OkStatus();
    }
    orphans_.push_back(row);
    return absl::DataLossError(absl::StrCat("restoring the alert ", alert.id(), " of rule ",
                                            alert.rule(), ": its state is not readable"));
  };
  for (const auto& judge : rules_) {
    if (judge->rule().name == alert.rule()) return restore(judge.get());
  }
  for (SignatureJudge& judge : signatures_) {
    if (judge.signature().name == alert.rule()) return restore(&judge);
  }
  orphans_.push_back(row);
  return absl::OkStatus();
}

// The alerts of rules that are changed or gone in `next`, as they end.
std::vector<model::AlertRow> Evaluator::Impl::EndReplaced(const CompiledRules& next) {
  absl::flat_hash_set<uint64_t> kept;
  for (const auto& rule : next.rules) kept.insert(IdentityOf(*rule));
  for (const auto& signature : next.signatures) kept.insert(IdentityOf(*signature));
  std::vector<model::AlertRow> rows;
  const auto end = [&](LiveAlert* live, const auto& row_of) {
    if (!live->active) return;
    live->active = false;
    rows.push_back(row_of());
    v1::Alert* const alert = rows.back().mutable_alert();
    alert->set_resolved_step(std::max(last_step_, live->firing_step));
    WriteEnd("its rule was changed or removed", alert);
  };
  const AlertsView view = View(last_step_);
  const Contest contest(view);
  for (size_t i = 0; i < signatures_.size(); ++i) {
    if (kept.contains(IdentityOf(signatures_[i].signature()))) continue;
    end(&signatures_[i].alert(), [&] { return RowOf(view, contest, i); });
  }
  for (const std::unique_ptr<RuleJudge>& rule : rules_) {
    if (kept.contains(IdentityOf(rule->rule()))) continue;
    end(&rule->alert(), [&] { return RowOf(last_step_, rule.get()); });
  }
  return rows;
}

std::vector<model::AlertRow> Evaluator::Impl::ReplaceRules(std::shared_ptr<const RuleSet> rules) {
  const auto next = std::dynamic_pointer_cast<const CompiledRules>(rules);
  FORESHOCK_CHECK(next != nullptr);
  std::vector<model::AlertRow> rows = EndReplaced(*next);
  absl::flat_hash_map<uint64_t, std::unique_ptr<RuleJudge>> old_rules;
  for (auto& rule : rules_) old_rules[IdentityOf(rule->rule())] = std::move(rule);
  absl::flat_hash_map<uint64_t, SignatureJudge> old_signatures;
  for (SignatureJudge& signature : signatures_) {
    old_signatures.emplace(IdentityOf(signature.signature()), std::move(signature));
  }
  Use(std::move(rules));

  absl::flat_hash_set<uint64_t> carried;
  for (std::unique_ptr<RuleJudge>& rule : rules_) {
    const auto old = old_rules.find(IdentityOf(rule->rule()));
    if (old == old_rules.end()) continue;
    carried.insert(old->first);
    rule = std::move(old->second);
  }
  for (SignatureJudge& signature : signatures_) {
    const auto old = old_signatures.find(IdentityOf(signature.signature()));
    if (old == old_signatures.end()) continue;
    carried.insert(old->first);
    old->second.Rebind(signature.shared_signature());
    signature = std::move(old->second);
  }
  NoteReplaced(carried);
  return rows;
}

void Evaluator::Impl::NoteReplaced(const absl::flat_hash_set<uint64_t>& carried) {
  std::vector<ReplacedRule> replaced;
  ForEachJudge([&](uint64_t identity, auto* /*judge*/) {
    if (!carried.contains(identity)) {
      replaced.push_back({.identity = identity, .attempt = attempt_, .step = last_step_});
      return;
    }
    // Carried over from an earlier reload.
    for (const ReplacedRule& before : replaced_) {
      if (before.identity == identity) replaced.push_back(before);
    }
  });
  replaced_ = std::move(replaced);
}

}  // namespace foreshock::rules
