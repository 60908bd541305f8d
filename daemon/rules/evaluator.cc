#include "daemon/rules/evaluator.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "daemon/base/check.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/rule_judge.h"
#include "daemon/rules/signature_judge.h"
#include "daemon/rules/warm_up.h"

namespace foreshock {
namespace {

constexpr size_t kCheckpointsMax = 1000;
constexpr size_t kDivisorStepsMax = 4096;

// The recent values of a run-wide indicator, to divide others by.
class Divisor {
 public:
  void Push(int64_t step, double value) {
    values_.push_back({step, value});
    if (values_.size() > kDivisorStepsMax) values_.pop_front();
  }
  // Mean over the steps in (base, newest]; nullopt without a value in it.
  std::optional<double> MeanSince(int64_t base) const {
    double sum = 0;
    int count = 0;
    for (auto it = values_.rbegin(); it != values_.rend() && it->first > base; ++it) {
      sum += it->second;
      ++count;
    }
    if (count == 0) return std::nullopt;
    return sum / count;
  }
  void DropFrom(int64_t step) {
    while (!values_.empty() && values_.back().first >= step) values_.pop_back();
  }

 private:
  std::deque<std::pair<int64_t, double>> values_;
};

// FNV-1a: the same on every machine and in every version.
uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

class Evaluator::Impl {
 public:
  Impl(std::shared_ptr<const RuleSet> rules, std::string run, v1::ModelShape model)
      : run_(std::move(run)), model_(std::move(model)) {
    Use(std::move(rules));
  }

  void BeginAttempt(const AttemptStart& attempt) {
    resumed_ = attempts_begun_++ > 0 || attempt.resume_step.has_value();
    attempt_ = attempt.number;
    resume_step_ = attempt.resume_step;
    first_of_attempt_ = true;
    last_step_ = std::numeric_limits<int64_t>::min();
    schedule_.BeginAttempt();
  }

  std::vector<model::AlertRow> Evaluate(const ClosedStep& step) {
    std::vector<model::AlertRow> rows;
    if (primed_) rows = EndPriming(step.row.step);
    for (model::AlertRow& row : Step(step, /*quiet=*/false)) rows.push_back(std::move(row));
    return rows;
  }

  void Prime(const ClosedStep& step) {
    primed_ = true;
    Step(step, /*quiet=*/true);
  }

  absl::Status Restore(const model::AlertRow& row);
  std::vector<model::AlertRow> ReplaceRules(std::shared_ptr<const RuleSet> rules);

 private:
  // Where the values of a series go.
  struct Feed {
    size_t rule;
    size_t subject;
    size_t component;
  };
  struct Slot {
    std::vector<Feed> feeds;
    Divisor* divisor = nullptr;
    bool store_f32 = true;
    enum class Role : uint8_t { kNone, kLr, kTokens, kWindow, kRankScalar } role;
  };

  void Use(std::shared_ptr<const RuleSet> rules);
  size_t SlotOf(const SeriesKey& key);
  std::vector<model::AlertRow> Step(const ClosedStep& closed, bool quiet);
  std::vector<Finding> StoredFindings(const ClosedStep& closed) const;
  void StartAttempt(int64_t step);
  void NoteEvents(const ClosedStep& closed);
  std::vector<model::AlertRow> EndPriming(int64_t step);
  AlertsView View(int64_t step) const {
    return {*set_, rules_, signatures_, step, attempt_start_, resumed_};
  }
  void Name(const std::string& rule, LiveAlert* alert) const;
  model::AlertRow RuleRow(size_t index, int64_t step);
  model::AlertRow SignatureRow(size_t index, const AlertsView& view);
  void Fill(const LiveAlert& live, int64_t step, v1::Alert* alert) const;

  const std::string run_;
  const v1::ModelShape model_;
  std::shared_ptr<const CompiledRules> set_;
  std::vector<RuleJudge> rules_;
  std::vector<SignatureJudge> signatures_;
  absl::flat_hash_map<std::string, std::vector<std::pair<size_t, size_t>>> by_indicator_;
  absl::flat_hash_map<std::string, Divisor> divisors_;  // filled once, then of a fixed shape

  absl::flat_hash_map<SeriesKey, size_t> slot_of_;
  std::vector<Slot> slots_;
  std::vector<size_t> order_;  // slots of the previous step, to guess those of this one
  std::vector<SeriesKey> keys_;

  Schedule schedule_;
  uint32_t attempt_ = 1;
  uint32_t attempts_begun_ = 0;
  bool resumed_ = false;
  bool first_of_attempt_ = true;
  std::optional<int64_t> resume_step_;
  int64_t attempt_start_ = 0;
  int64_t last_step_ = std::numeric_limits<int64_t>::min();
  std::map<int64_t, std::string> checkpoints_;
  absl::flat_hash_map<std::string, absl::flat_hash_set<int64_t>> rank_scalars_;
  bool primed_ = false;
  std::vector<model::AlertRow> orphans_;  // restored alerts of rules that are gone
};

void Evaluator::Impl::Use(std::shared_ptr<const RuleSet> rules) {
  set_ = std::dynamic_pointer_cast<const CompiledRules>(rules);
  FORESHOCK_CHECK(set_ != nullptr);
  by_indicator_.clear();
  slot_of_.clear();
  slots_.clear();
  keys_.clear();
  order_.clear();
  absl::flat_hash_map<std::string, Divisor> divisors;
  for (size_t i = 0; i < set_->rules.size(); ++i) {
    const Input& input = set_->rules[i].input;
    for (size_t c = 0; c < input.indicators.size(); ++c) {
      by_indicator_[input.indicators[c]].emplace_back(i, c);
    }
    if (!input.divide_by.empty()) divisors[input.divide_by] = divisors_[input.divide_by];
  }
  divisors_ = std::move(divisors);
  rules_.resize(set_->rules.size());
  signatures_.resize(set_->signatures.size());
}

size_t Evaluator::Impl::SlotOf(const SeriesKey& key) {
  const auto [found, added] = slot_of_.try_emplace(key, slots_.size());
  if (!added) return found->second;
  Slot slot;
  const auto rules = by_indicator_.find(key.indicator);
  if (rules != by_indicator_.end()) {
    for (const auto& [rule, component] : rules->second) {
      const size_t subject = rules_[rule].SubjectOf(set_->rules[rule], key);
      if (subject != RuleJudge::kNotFed) slot.feeds.push_back({rule, subject, component});
    }
  }
  const bool run_wide = key.layer == kNoLayer && key.unit == Unit::kNone;
  const auto divisor = divisors_.find(key.indicator);
  if (run_wide && divisor != divisors_.end()) slot.divisor = &divisor->second;
  slot.store_f32 = StorageOf(key.indicator) == Storage::kF32;
  slot.role = Slot::Role::kNone;
  if (run_wide && key.indicator == "train.lr") slot.role = Slot::Role::kLr;
  if (run_wide && (key.indicator == "train.tokens_total" || key.indicator == "train.tokens")) {
    slot.role = Slot::Role::kTokens;
  }
  if (key.indicator == "attn.delta.window_steps") slot.role = Slot::Role::kWindow;
  if (key.unit == Unit::kRank && absl::StartsWith(key.indicator, "train.")) {
    slot.role = Slot::Role::kRankScalar;
  }
  slots_.push_back(std::move(slot));
  keys_.push_back(key);
  return slots_.size() - 1;
}

void Evaluator::Impl::StartAttempt(int64_t step) {
  first_of_attempt_ = false;
  attempt_start_ = step;
  rank_scalars_.clear();
  if (attempts_begun_ <= 1) return;
  const int64_t resume = resume_step_.value_or(step);
  for (size_t i = 0; i < rules_.size(); ++i) rules_[i].Resume(set_->rules[i], resume);
  for (SignatureJudge& signature : signatures_) signature.Resume();
  for (auto& [name, divisor] : divisors_) divisor.DropFrom(resume);
  checkpoints_.erase(checkpoints_.upper_bound(resume), checkpoints_.end());
}

void Evaluator::Impl::NoteEvents(const ClosedStep& closed) {
  for (const v1::Event& event : closed.events) {
    if (event.kind() != v1::EVENT_KIND_CHECKPOINT_SAVED) continue;
    checkpoints_[event.step()] =
        event.name().empty() ? absl::StrCat("step ", event.step()) : event.name();
    if (checkpoints_.size() > kCheckpointsMax) checkpoints_.erase(checkpoints_.begin());
  }
}

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

std::vector<model::AlertRow> Evaluator::Impl::Step(const ClosedStep& closed, bool quiet) {
  std::vector<model::AlertRow> rows;
  const int64_t step = closed.row.step;
  if (step <= last_step_) return rows;
  last_step_ = step;
  if (first_of_attempt_) StartAttempt(step);
  NoteEvents(closed);

  Schedule::StepInput schedule{.step = step,
                               .lr = std::nullopt,
                               .tokens = static_cast<double>(closed.row.tokens),
                               .snapshot_window = 0,
                               .events = closed.events};
  absl::flat_hash_map<int32_t, int64_t> windows;
  order_.resize(closed.samples.size(), 0);
  for (size_t i = 0; i < closed.samples.size(); ++i) {
    const Sample& sample = closed.samples[i];
    size_t index = order_[i];
    if (index >= keys_.size() || !(keys_[index] == sample.series)) {
      index = SlotOf(sample.series);
      order_[i] = index;
    }
    Slot& slot = slots_[index];
    // What is judged is what is stored, so that a restart judges the same numbers.
    const double value = slot.store_f32 ? static_cast<float>(sample.value) : sample.value;
    for (const Feed& feed : slot.feeds) {
      rules_[feed.rule].Feed(set_->rules[feed.rule], feed.subject, feed.component, value,
                             sample.flags);
    }
    if (slot.divisor != nullptr) slot.divisor->Push(step, value);
    switch (slot.role) {
      case Slot::Role::kNone:
        break;
      case Slot::Role::kLr:
        schedule.lr = value;
        break;
      case Slot::Role::kTokens:
        if (schedule.tokens <= 0) schedule.tokens = value;
        break;
      case Slot::Role::kWindow:
        windows[sample.series.layer] = static_cast<int64_t>(value);
        schedule.snapshot_window = static_cast<int64_t>(value);
        break;
      case Slot::Role::kRankScalar:
        rank_scalars_[absl::StripPrefix(sample.series.indicator, "train.")].insert(
            sample.series.unit_id);
        break;
    }
  }
  const std::vector<Finding> replayed = quiet ? StoredFindings(closed) : std::vector<Finding>();

  const uint8_t causes = schedule_.Push(schedule);
  const StepView view{
      .row = closed.row,
      .findings = quiet ? absl::MakeConstSpan(replayed) : absl::MakeConstSpan(closed.findings),
      .step = step,
      .settled = schedule_.settled(),
      .model_layers = model_.layers(),
      .rebase_causes = causes,
      .plateau = schedule_.plateau(),
      .window_steps = windows,
      .mean_since = [this](const std::string& indicator, int64_t base) -> std::optional<double> {
        return divisors_.find(indicator)->second.MeanSince(base);
      },
      .rank_scalars = rank_scalars_};
  for (size_t i = 0; i < rules_.size(); ++i) {
    RuleJudge& judge = rules_[i];
    if (!judge.Judge(set_->rules[i], view)) continue;
    if (judge.alert().active) Name(set_->rules[i].name, &judge.alert());
    if (!quiet) rows.push_back(RuleRow(i, step));
  }
  const AlertsView alerts = View(step);
  for (size_t i = 0; i < signatures_.size(); ++i) {
    SignatureJudge& judge = signatures_[i];
    if (!judge.Judge(set_->signatures[i], i, alerts)) continue;
    if (judge.alert().active) Name(set_->signatures[i].name, &judge.alert());
    if (!quiet) rows.push_back(SignatureRow(i, alerts));
  }
  return rows;
}

void Evaluator::Impl::Name(const std::string& rule, LiveAlert* alert) const {
  if (!alert->id.empty()) return;
  alert->attempt = attempt_;
  alert->id = absl::StrFormat(
      "%016x", StableHash(absl::StrCat(run_, "\n", rule, "\n", attempt_, "\n", alert->pending_step,
                                       "\n", alert->firing_step)));
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

model::AlertRow Evaluator::Impl::RuleRow(size_t index, int64_t step) {
  const Rule& rule = set_->rules[index];
  RuleJudge& judge = rules_[index];
  model::AlertRow row;
  v1::Alert* alert = row.mutable_alert();
  Fill(judge.alert(), step, alert);
  alert->set_rule(rule.name);
  alert->set_severity(rule.severity);
  alert->set_fault(rule.fault);
  alert->mutable_labels()->insert(rule.labels.begin(), rule.labels.end());
  judge.Describe(rule, alert);
  WriteTexts(rule.annotations, MeasureText(rule.input), "", alert);
  rules::AlertState state;
  judge.Save(&state);
  row.set_state(state.SerializeAsString());
  judge.alert().reported = true;
  return row;
}

model::AlertRow Evaluator::Impl::SignatureRow(size_t index, const AlertsView& view) {
  const Signature& signature = set_->signatures[index];
  SignatureJudge& judge = signatures_[index];
  model::AlertRow row;
  v1::Alert* alert = row.mutable_alert();
  Fill(judge.alert(), view.step, alert);
  alert->set_rule(signature.name);
  alert->set_severity(judge.severity());
  alert->set_fault(signature.fault);
  alert->mutable_labels()->insert(signature.labels.begin(), signature.labels.end());
  const std::string measure = judge.Describe(signature, view, alert);
  WriteTexts(signature.annotations, measure, judge.confidence(), alert);
  rules::AlertState state;
  judge.Save(&state);
  row.set_state(state.SerializeAsString());
  judge.alert().reported = true;
  return row;
}

// Replaying says an alert fires that no stored row knows: it was never reported, so it begins anew
// if its condition still holds. And a stored alert whose rule is gone ends.
std::vector<model::AlertRow> Evaluator::Impl::EndPriming(int64_t step) {
  primed_ = false;
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

Evaluator::Evaluator(std::shared_ptr<const RuleSet> rules, std::string run, v1::ModelShape model)
    : impl_(std::make_unique<Impl>(std::move(rules), std::move(run), std::move(model))) {}
Evaluator::~Evaluator() = default;

void Evaluator::BeginAttempt(const AttemptStart& attempt) { impl_->BeginAttempt(attempt); }
std::vector<model::AlertRow> Evaluator::Evaluate(const ClosedStep& step) {
  return impl_->Evaluate(step);
}
void Evaluator::Prime(const ClosedStep& step) { impl_->Prime(step); }
absl::Status Evaluator::Restore(const model::AlertRow& row) { return impl_->Restore(row); }
std::vector<model::AlertRow> Evaluator::ReplaceRules(std::shared_ptr<const RuleSet> rules) {
  return impl_->ReplaceRules(std::move(rules));
}

// Anchored baselines, the warm-up and how long an alert has been firing go back to the start.
int64_t Evaluator::history_steps() const { return std::numeric_limits<int64_t>::max(); }

}  // namespace foreshock
