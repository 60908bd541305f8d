// Judges the closed steps of one run, and sees to it that a restart need not judge them again: what
// the rules and the indicators remember is stored now and then.
//
//   Judging judging("exp-42", /*remember_steps=*/2048, rules, &stats);
//   judging.BeginAttempt(attempts, 1);
//   std::vector<model::AlertRow> rows = judging.Judge(closed, attempt);
//   judging.Remember(attempt, &batch);
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/step.h"
#include "daemon/pipeline/attempt.h"
#include "daemon/pipeline/stats.h"
#include "daemon/rules/evaluator.h"
#include "daemon/rules/rule_set.h"
#include "daemon/store/store.h"

namespace foreshock::pipeline {

// Only on the writer's thread. Alert rows are returned as Evaluator::Evaluate returns them.
class Judging {
 public:
  // After so many steps what the rules remember is stored, or after more where it is large: one for
  // each kibibyte. A restart judges at most so many again. `stats` outlives it.
  Judging(std::string run, int64_t remember_steps, std::shared_ptr<const rules::RuleSet> rules,
          PipelineStats* stats);

  // Attempt `number` of them begins, with what its ranks have announced so far.
  void BeginAttempt(const Attempts& attempts, uint32_t number);
  // A rank of the newest attempt said Hello; it said Goodbye.
  void RankSpeaks(const v1::Hello& hello);
  void RankGone(uint32_t rank) { evaluator_.RankGone(rank); }

  // A step of the newest attempt, in step order. Stores what is remembered when that is due.
  std::vector<model::AlertRow> Judge(const model::ClosedStep& closed, Attempt* newest,
                                     store::StoreBatch* batch);
  // Lets the rules that need a clock look at it.
  std::vector<model::AlertRow> Tick(const rules::Evaluator::Clock& clock) {
    return evaluator_.Tick(clock);
  }
  // `newest` is null while the run has no attempt.
  std::vector<model::AlertRow> ReplaceRules(std::shared_ptr<const rules::RuleSet> rules,
                                            Attempt* newest, store::StoreBatch* batch);

  // Stores what is remembered.
  void Remember(Attempt* newest, store::StoreBatch* batch);
  // Whether a step was judged since.
  bool has_news() const { return steps_to_remember_ > 0; }

  // After a restart, with all attempts read back: goes on from what was remembered, and shows the
  // rules and the indicators the stored steps after that. Rules that the memory does not know are
  // shown all stored steps. Then Restore with every alert that goes on.
  absl::Status Load(const store::Store& store, Attempts* attempts);
  void Restore(const model::AlertRow& row);

 private:
  // The last step that nobody has to show the rules again.
  struct Judged {
    uint32_t attempt = 0;  // 0: nothing is remembered
    int64_t step = -1;
  };

  int64_t remember_after() const { return std::max(remember_steps_, remembered_kib_); }
  void NoteReplaced(Attempt* newest, store::StoreBatch* batch);
  static int64_t FirstUnjudged(const Judged& judged, const Attempts& attempts);
  absl::StatusOr<Judged> Recall(const store::Store& store, Attempts* attempts);
  absl::Status Prime(const store::Store& store, const Judged& judged, Attempts* attempts);

  const std::string run_;
  const int64_t remember_steps_;
  PipelineStats* const stats_;
  std::shared_ptr<const rules::RuleSet> rules_;
  rules::Evaluator evaluator_;
  int64_t steps_to_remember_ = 0;  // judged since it was last stored
  int64_t remembered_kib_ = 0;     // its size then
};

}  // namespace foreshock::pipeline
