// The evaluator's inside, shared by evaluator.cc (a step), evaluator_tick.cc (between steps),
// evaluator_rows.cc (what is returned of an alert), evaluator_memory.cc (what is kept for a
// restart) and evaluator_restart.cc (priming, restoring, other rules).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/stable_hash.h"
#include "daemon/rules/coverage.h"
#include "daemon/rules/evaluator.h"
#include "daemon/rules/lineage.h"
#include "daemon/rules/progress.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/rule_judge.h"
#include "daemon/rules/signature_judge.h"
#include "daemon/rules/stored_findings.h"
#include "daemon/rules/warm_up.h"

namespace foreshock::rules {

// Of the form of the state that is stored with an alert. An alert whose state has another form ends
// at a restart, and begins again if its condition still holds.
inline constexpr uint32_t kAlertStateVersion = 3;

// Equal for a rule or signature and the same one after a restart or reload.
template <typename T>
uint64_t IdentityOf(const T& rule) {
  return base::StableHash(absl::StrCat(rule.name, "\n", rule.canonical));
}

class Evaluator::Impl {
 public:
  Impl(std::shared_ptr<const RuleSet> rules, std::string run, uint32_t model_layers)
      : run_(std::move(run)), model_layers_(model_layers) {
    Use(std::move(rules));
  }

  void BeginAttempt(const AttemptStart& attempt) {
    resumed_ = attempts_begun_++ > 0 || attempt.resume_step.has_value();
    attempt_ = attempt.number;
    resume_step_ = attempt.resume_step;
    first_of_attempt_ = true;
    model_layers_ = attempt.model_layers.value_or(model_layers_);
    last_step_ = std::numeric_limits<int64_t>::min();
    schedule_.BeginAttempt();
    progress_.BeginAttempt(attempt.reached);
    coverage_.BeginAttempt();
    silent_ranks_.clear();
  }
  void DeclarePlan(uint32_t rank, uint32_t world_size, absl::Span<const v1::PlanEntry> plan) {
    coverage_.Declare(rank, world_size, plan);
  }
  void RankGone(uint32_t rank) { coverage_.RankGone(rank); }
  void SetSilentRanks(std::vector<uint32_t> ranks) { silent_ranks_ = std::move(ranks); }
  std::vector<model::AlertRow> Tick(const Clock& clock);

  std::vector<model::AlertRow> Evaluate(const model::ClosedStep& step) {
    std::vector<model::AlertRow> rows;
    if (primed_) rows = EndPriming(step.row.step);
    for (model::AlertRow& row : Step(step, /*quiet=*/false)) rows.push_back(std::move(row));
    return rows;
  }

  void Prime(const model::ClosedStep& step) {
    primed_ = true;
    StartReplaced(step.row.step);
    Step(step, /*quiet=*/true);
  }

  std::unique_ptr<Impl> Fresh() const {
    auto fresh = std::make_unique<Impl>(set_, run_, model_layers_);
    fresh->replaced_ = replaced_;
    fresh->to_start_ = to_start_;
    return fresh;
  }
  std::string Remember();
  bool Recall(absl::string_view memory);
  bool LacksRules() const { return !lacked_.empty(); }
  void TakeLackedRules(Impl* primed);
  std::string Replaced();
  void RecallReplaced(absl::string_view replaced);
  void ForgetReplaced() { replaced_.clear(); }

  bool Uses(const model::SeriesKey& key) const;
  void PrimeOvertaken(const model::ClosedStep& step);
  absl::Status Restore(const model::AlertRow& row);
  std::vector<model::AlertRow> ReplaceRules(std::shared_ptr<const RuleSet> rules);
  std::vector<JudgedSeries> Judged(absl::string_view rule) const;
  std::vector<v1::RuleJudging> Judging() const;
  v1::Judged JudgedSoFar() const;
  bool Explain(absl::string_view name, v1::ExplainResponse* out) const;

 private:
  // Where the values of a series go.
  struct Feed {
    RuleJudge* judge;
    size_t subject;
    size_t component;
  };
  struct Slot {
    std::vector<Feed> feeds;
    Divisor* divisor = nullptr;
    bool store_f32 = true;
    Coverage::Family family = 0;
    enum class Role : uint8_t { kNone, kLr, kTokens, kWindow, kRankScalar, kStepSeconds } role;
  };

  // What a step says of the run besides the values that rules judge.
  struct StepFacts {
    Schedule::StepInput schedule;
    absl::flat_hash_map<int32_t, int64_t> windows;  // steps between weight snapshots, by layer
    std::optional<double> step_seconds;
  };

  // A rule or signature that a reload brought into force: it is judged from behind that step on.
  struct ReplacedRule {
    uint64_t identity = 0;
    uint32_t attempt = 0;
    int64_t step = 0;

    template <typename A>
    void serialize(A& archive) {
      archive(identity, attempt, step);
    }
  };

  void Use(std::shared_ptr<const RuleSet> rules);
  bool IsReplaced(uint64_t identity) const;
  void ResetSlots();
  // Calls `visit` with the identity of each rule and signature, and with its judge.
  template <typename Visit>
  void ForEachJudge(const Visit& visit) {
    for (const auto& judge : rules_) visit(IdentityOf(judge->rule()), judge.get());
    for (SignatureJudge& judge : signatures_) visit(IdentityOf(judge.signature()), &judge);
  }
  void SharedFields(base::Archive* archive);
  // Lets rules that were replaced begin where `step` of the present attempt is behind that.
  void StartReplaced(int64_t step);
  void StartFresh(uint64_t identity);
  std::vector<model::AlertRow> EndReplaced(const CompiledRules& next);
  // After a reload that carried over the judges of these identities.
  void NoteReplaced(const absl::flat_hash_set<uint64_t>& carried);
  size_t SlotOf(const model::SeriesKey& key);
  std::vector<model::AlertRow> Step(const model::ClosedStep& closed, bool quiet);
  StepFacts TakeSamples(const model::ClosedStep& closed);
  void TakeFact(Slot::Role role, const model::SeriesKey& series, double value, StepFacts* facts);
  void StartAttempt(int64_t step);
  void NoteEvents(const model::ClosedStep& closed);
  // What the alert of this rule or signature shows is healthy.
  void AcceptLevel(absl::string_view alert);
  std::vector<model::AlertRow> EndPriming(int64_t step);
  void NoteVerdicts(int64_t step);
  void NoteCoverage(const model::ClosedStep& closed, absl::Span<const model::Finding> findings);
  // Signatures after the rules, and the rows of all that changed.
  void JudgeSignatures(int64_t step, bool quiet, std::vector<model::AlertRow>* rows);
  AlertsView View(int64_t step) const {
    return {rules_, signatures_, step, attempt_start_, attempt_, resumed_};
  }
  void Name(const std::string& rule, LiveAlert* alert) const;
  model::AlertRow RowOf(int64_t step, RuleJudge* judge);
  // Of a signature by its place. `contest`: what else may explain the same.
  model::AlertRow RowOf(const AlertsView& view, const Contest& contest, size_t signature);
  void Fill(const LiveAlert& live, int64_t step, v1::Alert* alert) const;

  const std::string run_;
  uint32_t model_layers_;  // 0: unknown
  std::shared_ptr<const CompiledRules> set_;
  std::vector<std::unique_ptr<RuleJudge>> rules_;  // in the order of the set
  std::vector<SignatureJudge> signatures_;
  absl::flat_hash_map<std::string, std::vector<std::pair<size_t, size_t>>> by_indicator_;
  absl::flat_hash_map<std::string, Divisor> divisors_;  // filled once, then of a fixed shape

  absl::flat_hash_map<model::SeriesKey, size_t> slot_of_;
  std::vector<Slot> slots_;
  std::vector<size_t> order_;  // slots of the previous step, to guess those of this one
  std::vector<model::SeriesKey> keys_;

  Schedule schedule_;
  TokenCount tokens_;
  Progress progress_;
  Coverage coverage_;
  std::vector<uint32_t> silent_ranks_;
  model::StepRow row_;        // of the newest step
  uint64_t rows_judged_ = 0;  // by at least one rule that judges series
  std::optional<int64_t> judged_from_;
  uint32_t attempt_ = 1;
  uint32_t attempts_begun_ = 0;
  bool resumed_ = false;
  bool first_of_attempt_ = true;
  std::optional<int64_t> resume_step_;
  int64_t attempt_start_ = 0;
  int64_t last_step_ = std::numeric_limits<int64_t>::min();
  std::map<int64_t, std::string> checkpoints_;
  RankScalars rank_scalars_;
  bool primed_ = false;
  std::vector<ReplacedRule> replaced_;  // that no memory has yet
  std::vector<ReplacedRule> to_start_;  // of them, those that priming has not reached yet
  // What the memory did not know: rules by identity, and divisors.
  absl::flat_hash_set<uint64_t> lacked_;
  absl::flat_hash_set<std::string> lacked_divisors_;
  std::vector<model::AlertRow> orphans_;  // restored alerts of rules that are gone
};

}  // namespace foreshock::rules
