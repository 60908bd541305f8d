// Going on after a restart or with other rules.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {
namespace {

template <typename T>
absl::flat_hash_map<std::string, size_t> PlacesByName(
    const std::vector<std::shared_ptr<const T>>& items) {
  absl::flat_hash_map<std::string, size_t> places;
  for (size_t i = 0; i < items.size(); ++i) places[items[i]->name] = i;
  return places;
}

}  // namespace

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

std::vector<model::AlertRow> Evaluator::Impl::ReplaceRules(std::shared_ptr<const RuleSet> rules) {
  std::vector<std::unique_ptr<RuleJudge>> old_rules = std::move(rules_);
  std::vector<SignatureJudge> old_signatures = std::move(signatures_);
  Use(std::move(rules));

  std::vector<model::AlertRow> rows;
  const auto end = [&](const auto& changed, const std::string& severity, LiveAlert live) {
    if (!live.active) return;
    live.active = false;
    model::AlertRow row;
    Fill(live, std::max(last_step_, live.firing_step), row.mutable_alert());
    row.mutable_alert()->set_rule(changed.name);
    row.mutable_alert()->set_severity(severity);
    row.mutable_alert()->set_fault(changed.fault);
    row.mutable_alert()->set_summary(
        absl::StrCat("The rule ", changed.name, " was changed or removed while it fired"));
    rows.push_back(std::move(row));
  };
  absl::flat_hash_set<uint64_t> carried;
  const absl::flat_hash_map<std::string, size_t> rule_at = PlacesByName(set_->rules);
  for (std::unique_ptr<RuleJudge>& old : old_rules) {
    const auto place = rule_at.find(old->rule().name);
    if (place == rule_at.end() || set_->rules[place->second]->canonical != old->rule().canonical) {
      end(old->rule(), old->rule().severity, old->alert());
    } else {
      carried.insert(IdentityOf(old->rule()));
      rules_[place->second] = std::move(old);
    }
  }
  const absl::flat_hash_map<std::string, size_t> signature_at = PlacesByName(set_->signatures);
  for (SignatureJudge& old : old_signatures) {
    const auto place = signature_at.find(old.signature().name);
    if (place == signature_at.end() ||
        set_->signatures[place->second]->canonical != old.signature().canonical) {
      end(old.signature(), old.severity(), old.alert());
    } else {
      carried.insert(IdentityOf(old.signature()));
      old.Rebind(set_->signatures[place->second]);
      signatures_[place->second] = std::move(old);
    }
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
