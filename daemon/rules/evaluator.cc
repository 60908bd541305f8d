#include "daemon/rules/evaluator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/check.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {
namespace {

constexpr size_t kCheckpointsMax = 1000;

}  // namespace

void Evaluator::Impl::Use(std::shared_ptr<const RuleSet> rules) {
  set_ = std::dynamic_pointer_cast<const CompiledRules>(rules);
  FORESHOCK_CHECK(set_ != nullptr);
  by_indicator_.clear();
  ResetSlots();
  absl::flat_hash_map<std::string, Divisor> divisors;
  for (size_t i = 0; i < set_->rules.size(); ++i) {
    const Input& input = set_->rules[i]->input;
    for (size_t c = 0; c < input.indicators.size(); ++c) {
      by_indicator_[input.indicators[c]].emplace_back(i, c);
    }
    if (!input.divide_by.empty()) divisors[input.divide_by] = divisors_[input.divide_by];
  }
  divisors_ = std::move(divisors);
  rules_.clear();
  for (const auto& rule : set_->rules) rules_.push_back(NewJudge(rule));
  signatures_.clear();
  for (const auto& signature : set_->signatures) signatures_.emplace_back(signature);
}

void Evaluator::Impl::ResetSlots() {
  slot_of_.clear();
  slots_.clear();
  keys_.clear();
  order_.clear();
}

size_t Evaluator::Impl::SlotOf(const model::SeriesKey& key) {
  const auto [found, added] = slot_of_.try_emplace(key, slots_.size());
  if (!added) return found->second;
  Slot slot;
  const auto rules = by_indicator_.find(key.indicator);
  if (rules != by_indicator_.end()) {
    for (const auto& [rule, component] : rules->second) {
      RuleJudge* const judge = rules_[rule].get();
      const size_t subject = judge->SubjectOf(key);
      if (subject != RuleJudge::kNotFed) slot.feeds.push_back({judge, subject, component});
    }
  }
  const bool run_wide = key.layer == model::kNoLayer && key.unit == model::Unit::kNone;
  const auto divisor = divisors_.find(key.indicator);
  if (run_wide && divisor != divisors_.end()) slot.divisor = &divisor->second;
  slot.store_f32 = model::StorageOf(key.indicator) == model::Storage::kF32;
  slot.family = Coverage::FamilyOf(key.indicator);
  slot.role = Slot::Role::kNone;
  if (run_wide && key.indicator == "train.step_seconds") slot.role = Slot::Role::kStepSeconds;
  if (run_wide && key.indicator == "train.lr") slot.role = Slot::Role::kLr;
  if (run_wide && (key.indicator == "train.tokens_total" || key.indicator == "train.tokens")) {
    slot.role = Slot::Role::kTokens;
  }
  if (key.indicator == "attn.delta.window_steps") slot.role = Slot::Role::kWindow;
  if (key.unit == model::Unit::kRank && absl::StartsWith(key.indicator, "train.")) {
    slot.role = Slot::Role::kRankScalar;
  }
  slots_.push_back(std::move(slot));
  keys_.push_back(key);
  return slots_.size() - 1;
}

bool Evaluator::Impl::Uses(const model::SeriesKey& key) const {
  const std::string& id = key.indicator;
  // What Slot::Role and StoredFindings look at.
  static constexpr absl::string_view kOwn[] = {"train.lr",           "train.tokens",
                                               "train.tokens_total", "train.nonfinite",
                                               "train.step_seconds", "attn.delta.window_steps"};
  return by_indicator_.contains(id) || divisors_.contains(id) ||
         (key.unit == model::Unit::kRank && absl::StartsWith(id, "train.")) ||
         std::find(std::begin(kOwn), std::end(kOwn), id) != std::end(kOwn);
}

void Evaluator::Impl::StartAttempt(int64_t step) {
  first_of_attempt_ = false;
  attempt_start_ = step;
  rank_scalars_.clear();
  if (attempts_begun_ <= 1) return;
  const int64_t resume = resume_step_.value_or(step);
  for (const auto& judge : rules_) judge->Resume(resume);
  for (SignatureJudge& signature : signatures_) signature.Resume(resume);
  for (auto& [name, divisor] : divisors_) divisor.DropFrom(resume);
  tokens_.DropFrom(resume);
  checkpoints_.erase(checkpoints_.upper_bound(resume), checkpoints_.end());
}

void Evaluator::Impl::NoteEvents(const model::ClosedStep& closed) {
  for (const v1::Event& event : closed.events) {
    if (event.kind() == v1::EVENT_KIND_LEVEL_ACCEPTED) AcceptLevel(event.name());
    if (event.kind() != v1::EVENT_KIND_CHECKPOINT_SAVED) continue;
    checkpoints_[event.step()] =
        event.name().empty() ? absl::StrCat("step ", event.step()) : event.name();
    if (checkpoints_.size() > kCheckpointsMax) checkpoints_.erase(checkpoints_.begin());
  }
}

void Evaluator::Impl::AcceptLevel(absl::string_view alert) {
  const auto accept = [](RuleJudge* judge) {
    // A hang, a value that is not finite and what exceeds a fixed limit are no levels.
    const Detector& detector = judge->rule().detector;
    if (FamilyOf(detector) != Family::kSamples) return;
    if (!std::holds_alternative<ThresholdSpec>(detector)) judge->Accept();
  };
  for (const auto& judge : rules_) {
    if (judge->rule().name == alert) accept(judge.get());
  }
  for (const SignatureJudge& judge : signatures_) {
    if (judge.signature().name != alert) continue;
    for (const AlertRef ref : judge.signature().evidence) accept(rules_[ref.index].get());
  }
}

void Evaluator::Impl::TakeFact(Slot::Role role, const model::SeriesKey& series, double value,
                               StepFacts* facts) {
  switch (role) {
    case Slot::Role::kNone:
      break;
    case Slot::Role::kLr:
      facts->schedule.lr = value;
      break;
    case Slot::Role::kTokens:
      if (facts->schedule.tokens <= 0) facts->schedule.tokens = value;
      break;
    case Slot::Role::kWindow:
      facts->windows[series.layer] = static_cast<int64_t>(value);
      facts->schedule.snapshot_window = static_cast<int64_t>(value);
      break;
    case Slot::Role::kRankScalar:
      rank_scalars_[absl::StripPrefix(series.indicator, "train.")].insert(series.unit_id);
      break;
    case Slot::Role::kStepSeconds:
      facts->step_seconds = value;
      break;
  }
}

Evaluator::Impl::StepFacts Evaluator::Impl::TakeSamples(const model::ClosedStep& closed) {
  const int64_t step = closed.row.step;
  StepFacts facts;
  facts.schedule.step = step;
  facts.schedule.tokens = static_cast<double>(closed.row.tokens);
  facts.schedule.events = closed.events;
  order_.resize(closed.samples.size(), 0);
  for (size_t i = 0; i < closed.samples.size(); ++i) {
    const model::Sample& sample = closed.samples[i];
    size_t index = order_[i];
    if (index >= keys_.size() || !(keys_[index] == sample.series)) {
      index = SlotOf(sample.series);
      order_[i] = index;
    }
    const Slot& slot = slots_[index];
    // What is judged is what is stored, so that a restart judges the same numbers.
    const double value = slot.store_f32 ? static_cast<float>(sample.value) : sample.value;
    for (const Feed& feed : slot.feeds) {
      feed.judge->Feed(feed.subject, feed.component, value, sample.flags);
    }
    if (slot.divisor != nullptr) slot.divisor->Push(step, value);
    coverage_.Seen(slot.family, sample.series.layer, step);
    if (slot.role != Slot::Role::kNone) TakeFact(slot.role, sample.series, value, &facts);
  }
  return facts;
}

std::vector<model::AlertRow> Evaluator::Impl::Step(const model::ClosedStep& closed, bool quiet) {
  std::vector<model::AlertRow> rows;
  const int64_t step = closed.row.step;
  if (step <= last_step_) return rows;
  last_step_ = step;
  if (first_of_attempt_) StartAttempt(step);
  NoteEvents(closed);
  const StepFacts facts = TakeSamples(closed);
  const std::vector<model::Finding> replayed =
      quiet ? StoredFindings(closed, rank_scalars_) : std::vector<model::Finding>();
  const absl::Span<const model::Finding> findings = quiet ? replayed : closed.findings;
  progress_.StepClosed(step, facts.step_seconds);
  NoteCoverage(closed, findings);
  row_ = closed.row;

  tokens_.Push(step, facts.schedule.tokens);
  const uint8_t causes = schedule_.Push(facts.schedule);
  const StepView view{
      .row = closed.row,
      .findings = findings,
      .step = step,
      .settled = schedule_.settled(),
      .model_layers = model_layers_,
      .rebase_causes = causes,
      .plateau = schedule_.plateau(),
      .tokens = tokens_.total(),
      .window_steps = facts.windows,
      .mean_since = [this](const std::string& indicator, int64_t base) -> std::optional<double> {
        return divisors_.find(indicator)->second.MeanSince(base);
      },
      .rank_scalars = rank_scalars_,
      .progress = progress_,
      .coverage = coverage_,
      .silent_ranks = silent_ranks_};
  for (size_t i = 0; i < rules_.size(); ++i) {
    RuleJudge* const judge = rules_[i].get();
    // By the set in force: a judge that a reload carried over has a rule of the set before.
    const std::optional<size_t> context = set_->rules[i]->accept_while;
    if (context.has_value() && rules_[*context]->alert().active) judge->Accept();
    if (!judge->Judge(view)) continue;
    if (judge->alert().active) Name(judge->rule().name, &judge->alert());
    if (!quiet) rows.push_back(RowOf(step, judge));
  }
  NoteVerdicts(step);
  JudgeSignatures(step, quiet, &rows);
  return rows;
}

void Evaluator::Impl::JudgeSignatures(int64_t step, bool quiet,
                                      std::vector<model::AlertRow>* rows) {
  const AlertsView alerts = View(step);
  const Contest contest(alerts);
  for (size_t i = 0; i < signatures_.size(); ++i) {
    SignatureJudge& judge = signatures_[i];
    if (!judge.Judge(alerts, contest, i)) continue;
    if (judge.alert().active) Name(judge.signature().name, &judge.alert());
    if (!quiet) rows->push_back(RowOf(alerts, contest, i));
  }
}

std::vector<JudgedSeries> Evaluator::Impl::Judged(absl::string_view rule) const {
  for (const auto& judge : rules_) {
    if (judge->rule().name == rule) return judge->Judged(last_step_);
  }
  return {};
}

Evaluator::Evaluator(std::shared_ptr<const RuleSet> rules, std::string run,
                     const v1::ModelShape& model)
    : impl_(std::make_unique<Impl>(std::move(rules), std::move(run), model.layers())) {}
Evaluator::~Evaluator() = default;

void Evaluator::BeginAttempt(const AttemptStart& attempt) { impl_->BeginAttempt(attempt); }
std::vector<model::AlertRow> Evaluator::Evaluate(const model::ClosedStep& step) {
  return impl_->Evaluate(step);
}
void Evaluator::DeclarePlan(uint32_t rank, uint32_t world_size,
                            absl::Span<const v1::PlanEntry> plan) {
  impl_->DeclarePlan(rank, world_size, plan);
}
void Evaluator::RankGone(uint32_t rank) { impl_->RankGone(rank); }
void Evaluator::SetSilentRanks(std::vector<uint32_t> ranks) {
  impl_->SetSilentRanks(std::move(ranks));
}
std::vector<model::AlertRow> Evaluator::Tick(const Clock& clock) { return impl_->Tick(clock); }
void Evaluator::Prime(const model::ClosedStep& step) { impl_->Prime(step); }
void Evaluator::PrimeOvertaken(const model::ClosedStep& step) { impl_->PrimeOvertaken(step); }
absl::Status Evaluator::Restore(const model::AlertRow& row) { return impl_->Restore(row); }
std::vector<model::AlertRow> Evaluator::ReplaceRules(std::shared_ptr<const RuleSet> rules) {
  return impl_->ReplaceRules(std::move(rules));
}

bool Evaluator::Uses(const model::SeriesKey& series) const { return impl_->Uses(series); }
std::vector<JudgedSeries> Evaluator::Judged(absl::string_view rule) const {
  return impl_->Judged(rule);
}

}  // namespace foreshock::rules
