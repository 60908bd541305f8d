// Going on after a restart or with other rules.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rules/evaluator_impl.h"
#include "daemon/rules/state.pb.h"

namespace foreshock {

// Findings are not stored, but what they leave is: a count by name, and ranks without a value.
std::vector<Finding> Evaluator::Impl::StoredFindings(const ClosedStep& closed) const {
  std::vector<Finding> findings;
  for (const Sample& sample : closed.samples) {
    if (sample.series.indicator != "train.nonfinite") continue;
    Finding finding;
    finding.name = sample.series.unit_name;
    finding.count = static_cast<uint64_t>(sample.value);
    const size_t before = findings.size();
    const auto senders = rank_scalars_.find(finding.name);
    if (senders != rank_scalars_.end()) {
      std::vector<int64_t> missing(senders->second.begin(), senders->second.end());
      for (const Sample& other : closed.samples) {
        if (other.series.unit == Unit::kRank &&
            other.series.indicator == absl::StrCat("train.", finding.name)) {
          std::erase(missing, other.series.unit_id);
        }
      }
      std::sort(missing.begin(), missing.end());
      for (const int64_t rank : missing) {
        finding.rank = static_cast<uint32_t>(rank);
        findings.push_back(finding);
        finding.count = 0;  // the sum is stored, not the parts
      }
    }
    if (findings.size() == before) findings.push_back(finding);
  }
  return findings;
}

// Replaying says an alert fires that no stored row knows: it was never reported, so it begins anew
// if its condition still holds. And a stored alert whose rule is gone ends.
std::vector<model::AlertRow> Evaluator::Impl::EndPriming(int64_t step) {
  primed_ = false;
  if (last_step_ != std::numeric_limits<int64_t>::min()) coverage_.Forgive(last_step_);
  for (RuleJudge& rule : rules_) {
    if (rule.alert().active && !rule.alert().reported) rule.Silence();
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

void Evaluator::Impl::PrimeOvertaken(const ClosedStep& closed) {
  if (closed.row.step <= last_step_) return;
  const auto compares = [this](size_t rule) {
    return set_->rules[rule].detector.kind == Detector::Kind::kContinuity;
  };
  for (const Sample& sample : closed.samples) {
    const Slot& slot = slots_[SlotOf(sample.series)];
    const double value = slot.store_f32 ? static_cast<float>(sample.value) : sample.value;
    for (const Feed& feed : slot.feeds) {
      if (!compares(feed.rule)) continue;
      rules_[feed.rule].Feed(set_->rules[feed.rule], feed.subject, feed.component, value,
                             sample.flags);
    }
  }
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (compares(i)) rules_[i].TakeOvertaken(set_->rules[i], closed.row.step);
  }
}

absl::Status Evaluator::Impl::Restore(const model::AlertRow& row) {
  const v1::Alert& alert = row.alert();
  rules::AlertState state;
  if (!state.ParseFromString(row.state())) {
    return absl::DataLossError(absl::StrCat("restoring the alert ", alert.id(), " of rule ",
                                            alert.rule(), ": its state is not readable"));
  }
  if (alert.state() != v1::ALERT_STATE_FIRING) return absl::OkStatus();
  primed_ = true;
  for (size_t i = 0; i < set_->rules.size(); ++i) {
    const Rule& rule = set_->rules[i];
    if (rule.name != alert.rule()) continue;
    // The replayed state is newer than the row's.
    const bool replayed = rules_[i].alert().active && rules_[i].alert().id == alert.id();
    rules_[i].Restore(rule, alert, state, replayed);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < set_->signatures.size(); ++i) {
    if (set_->signatures[i].name != alert.rule()) continue;
    const bool replayed = signatures_[i].alert().active && signatures_[i].alert().id == alert.id();
    signatures_[i].Restore(alert, state, replayed);
    return absl::OkStatus();
  }
  orphans_.push_back(row);
  return absl::OkStatus();
}

std::vector<model::AlertRow> Evaluator::Impl::ReplaceRules(std::shared_ptr<const RuleSet> rules) {
  const std::shared_ptr<const CompiledRules> old = set_;
  std::vector<RuleJudge> old_rules = std::move(rules_);
  std::vector<SignatureJudge> old_signatures = std::move(signatures_);
  rules_.clear();
  signatures_.clear();
  Use(std::move(rules));

  const auto carry = [](const auto& before, const auto& after, auto* from, auto* to) {
    absl::flat_hash_map<std::string, size_t> at;
    for (size_t i = 0; i < after.size(); ++i) at[after[i].name] = i;
    std::vector<bool> kept(before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      const auto found = at.find(before[i].name);
      kept[i] = found != at.end() && after[found->second].canonical == before[i].canonical;
      if (kept[i]) (*to)[found->second] = std::move((*from)[i]);
    }
    return kept;
  };
  const std::vector<bool> kept_rules = carry(old->rules, set_->rules, &old_rules, &rules_);
  const std::vector<bool> kept_signatures =
      carry(old->signatures, set_->signatures, &old_signatures, &signatures_);

  std::vector<model::AlertRow> rows;
  const auto end = [&](const std::string& name, const std::string& severity,
                       const std::string& fault, LiveAlert live) {
    if (!live.active) return;
    live.active = false;
    model::AlertRow row;
    Fill(live, std::max(last_step_, live.firing_step), row.mutable_alert());
    row.mutable_alert()->set_rule(name);
    row.mutable_alert()->set_severity(severity);
    row.mutable_alert()->set_fault(fault);
    row.mutable_alert()->set_summary(
        absl::StrCat("The rule ", name, " was changed or removed while it fired"));
    rows.push_back(std::move(row));
  };
  for (size_t i = 0; i < old->rules.size(); ++i) {
    const Rule& rule = old->rules[i];
    if (!kept_rules[i]) end(rule.name, rule.severity, rule.fault, old_rules[i].alert());
  }
  for (size_t i = 0; i < old->signatures.size(); ++i) {
    const Signature& signature = old->signatures[i];
    if (kept_signatures[i]) continue;
    end(signature.name, old_signatures[i].severity(), signature.fault, old_signatures[i].alert());
  }
  return rows;
}

}  // namespace foreshock
