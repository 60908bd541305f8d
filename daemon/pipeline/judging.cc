#include "daemon/pipeline/judging.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/step_reader.h"

namespace foreshock::pipeline {
namespace {

// History looks at every series of so many steps (dead experts: 200 steps in blocks of ten).
constexpr int64_t kHistorySteps = 300;
// Names the form of a remembered History. A restart that finds another one reads it back from
// points.
constexpr uint32_t kHistoryVersion = 2;
// A run whose rules remember more is judged from its start after a restart: a row larger than the
// store's write buffer would hold up the writes behind it.
constexpr size_t kMemoryBytesMax = 16u << 20;

// Feeds from the stored points of a step what Finish fed when it closed.
void ObserveHistory(const model::ClosedStep& step, const v1::ModelShape& model,
                    indicators::History* history) {
  std::map<uint32_t, std::vector<double>> shares_by_layer;
  history->ObserveTime(step.row.step, step.row.time_unix_ns);
  for (const model::Sample& sample : step.samples) {
    const model::SeriesKey& series = sample.series;
    if (series.unit == model::Unit::kNone && series.indicator == "train.loss") {
      history->ObserveScalar("loss", step.row.step, sample.value);
    } else if (series.unit == model::Unit::kNone && series.indicator == "train.grad_norm") {
      history->ObserveScalar("grad_norm", step.row.step, sample.value);
    } else if (series.indicator == "load.share" && series.layer >= 0 && series.unit_id >= 0 &&
               series.unit_id < model.experts()) {
      std::vector<double>& shares = shares_by_layer[static_cast<uint32_t>(series.layer)];
      shares.resize(model.experts());
      shares[static_cast<size_t>(series.unit_id)] = sample.value;
    }
  }
  for (const auto& [layer, shares] : shares_by_layer) {
    history->ObserveLoad(layer, step.row.step, shares);
  }
}

std::string RememberHistory(indicators::History* history) {
  uint32_t version = kHistoryVersion;
  base::Archive archive;
  archive.Take(&version, history);
  return archive.bytes();
}

int64_t KibOf(const model::JudgingRow& row) {
  return static_cast<int64_t>(row.ByteSizeLong() >> 10);
}

std::optional<indicators::History> RecallHistory(absl::string_view bytes) {
  uint32_t version = 0;
  indicators::History history;
  base::Archive archive(bytes);
  archive.Take(&version);
  if (version != kHistoryVersion) return std::nullopt;
  archive.Take(&history);
  return archive.AtEnd() ? std::optional(std::move(history)) : std::nullopt;
}

void DeclarePlans(const Attempt& attempt, rules::Evaluator* evaluator) {
  for (const auto& [number, rank] : attempt.speakers.ranks()) {
    for (const auto& [instance, process] : rank.processes) {
      const auto& plan = process.row.plan();
      evaluator->DeclarePlan(number, attempt.row.world_size(),
                             std::vector<v1::PlanEntry>(plan.begin(), plan.end()));
    }
    if (rank.outcome != v1::OUTCOME_UNSPECIFIED) evaluator->RankGone(number);
  }
}

void Begin(const Attempts& attempts, uint32_t number, rules::Evaluator* evaluator) {
  const Attempt& attempt = attempts.at(number);
  rules::AttemptStart start{.number = number};
  if (attempt.row.has_resume_step()) start.resume_step = attempt.row.resume_step();
  for (const auto& [other, before] : attempts) {
    if (other >= number || !before.row.has_last_step()) continue;
    start.reached = std::max(start.reached.value_or(-1), before.row.last_step());
  }
  start.model_layers = attempt.model.layers();
  evaluator->BeginAttempt(start);
  DeclarePlans(attempt, evaluator);
}

// Shows an evaluator the stored steps of a run.
class Showing {
 public:
  // `begun`: the newest attempt that the evaluator knows of.
  Showing(const Attempts& attempts, uint32_t begun, rules::Evaluator* evaluator)
      : attempts_(attempts), begun_(begun), evaluator_(evaluator) {}

  // An attempt without a step in the lineage begins as well.
  void BeginThrough(uint32_t number) {
    for (auto it = attempts_.upper_bound(begun_); it != attempts_.upper_bound(number); ++it) {
      Begin(attempts_, it->first, evaluator_);
    }
    begun_ = std::max(begun_, number);
  }

  // False: a newer attempt has begun after the step and has yet to reach it. Such a step is no past
  // of the newer one's steps, but a resume is judged by it.
  bool Show(const model::ClosedStep& step) {
    if (step.row.attempt < begun_) {
      evaluator_->PrimeOvertaken(step);
      return false;
    }
    BeginThrough(step.row.attempt);
    evaluator_->Prime(step);
    return true;
  }

 private:
  const Attempts& attempts_;
  uint32_t begun_;
  rules::Evaluator* const evaluator_;
};

}  // namespace

Judging::Judging(std::string run, int64_t remember_steps,
                 std::shared_ptr<const rules::RuleSet> rules, PipelineStats* stats)
    : run_(std::move(run)),
      remember_steps_(remember_steps),
      stats_(stats),
      rules_(std::move(rules)),
      evaluator_(rules_, run_, v1::ModelShape()) {}

void Judging::BeginAttempt(const Attempts& attempts, uint32_t number) {
  Begin(attempts, number, &evaluator_);
}

void Judging::RankSpeaks(const v1::Hello& hello) {
  evaluator_.DeclarePlan(hello.rank(), hello.world_size(),
                         std::vector<v1::PlanEntry>(hello.plan().begin(), hello.plan().end()));
}

std::vector<model::AlertRow> Judging::Judge(const model::ClosedStep& closed, Attempt* newest,
                                            store::StoreBatch* batch) {
  if (closed.row.ranks < newest->row.world_size()) {
    evaluator_.SetSilentRanks(newest->open_steps.silent_ranks());
  }
  stats_->rules_evaluated += rules_->infos().size();
  std::vector<model::AlertRow> rows = evaluator_.Evaluate(closed);
  *newest->row.mutable_judged() = evaluator_.JudgedSoFar();
  if (++steps_to_remember_ >= remember_after()) Remember(newest, batch);
  return rows;
}

std::vector<model::AlertRow> Judging::ReplaceRules(std::shared_ptr<const rules::RuleSet> rules,
                                                   Attempt* newest, store::StoreBatch* batch) {
  rules_ = std::move(rules);
  std::vector<model::AlertRow> rows = evaluator_.ReplaceRules(rules_);
  // What was remembered is of the old rules. It is replaced with the next step, not now: a reload
  // changes all runs in one batch. Until then a note says which rules are new.
  steps_to_remember_ = remember_after();
  if (newest != nullptr) NoteReplaced(newest, batch);
  return rows;
}

void Judging::NoteReplaced(Attempt* newest, store::StoreBatch* batch) {
  const std::string replaced = evaluator_.Replaced();
  if (newest->row.rules_replaced() == replaced) return;
  newest->row.set_rules_replaced(replaced);
  batch->attempts.push_back({run_, newest->row});
}

void Judging::Remember(Attempt* newest, store::StoreBatch* batch) {
  steps_to_remember_ = 0;
  model::JudgingRow row;
  row.set_attempt(newest->number());
  row.set_step(newest->row.has_last_step() ? newest->row.last_step() : -1);
  row.set_memory(evaluator_.Remember());
  row.set_history(RememberHistory(&newest->history));
  remembered_kib_ = KibOf(row);
  if (row.ByteSizeLong() <= kMemoryBytesMax) {
    batch->judging.push_back({run_, std::move(row)});
    evaluator_.ForgetReplaced();
  }
  NoteReplaced(newest, batch);
}

void Judging::Restore(const model::AlertRow& row) {
  const absl::Status restored = evaluator_.Restore(row);
  if (restored.ok()) return;
  base::LogWarning("pipeline", "an alert ends at this restart; it begins again if it still holds",
                   {{"run", run_}, {"error", std::string(restored.message())}});
}

absl::Status Judging::Load(const store::Store& store, Attempts* attempts) {
  evaluator_.RecallReplaced(attempts->rbegin()->second.row.rules_replaced());
  FORESHOCK_ASSIGN_OR_RETURN(const Judged judged, Recall(store, attempts));
  return Prime(store, judged, attempts);
}

// An evaluator that recalls goes on as if it had been shown the steps before.
absl::StatusOr<Judging::Judged> Judging::Recall(const store::Store& store, Attempts* attempts) {
  const absl::StatusOr<std::optional<model::JudgingRow>> row = store.Judging(run_);
  if (absl::IsDataLoss(row.status())) {
    base::LogWarning("pipeline",
                     "what the rules remembered is lost: judging the run from its start",
                     {{"run", run_}, {"error", std::string(row.status().message())}});
    return Judged();
  }
  FORESHOCK_RETURN_IF_ERROR(row.status());
  if (!row->has_value()) return Judged();
  const model::JudgingRow& remembered = **row;
  const auto attempt = attempts->find(remembered.attempt());
  std::optional<indicators::History> history = RecallHistory(remembered.history());
  if (attempt == attempts->end() || !history.has_value() ||
      !evaluator_.Recall(remembered.memory())) {
    return Judged();
  }
  attempt->second.history = *std::move(history);
  DeclarePlans(attempt->second, &evaluator_);
  remembered_kib_ = KibOf(remembered);
  return Judged{.attempt = remembered.attempt(), .step = remembered.step()};
}

int64_t Judging::FirstUnjudged(const Judged& judged, const Attempts& attempts) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (auto it = attempts.lower_bound(judged.attempt); it != attempts.end(); ++it) {
    const model::AttemptRow& row = it->second.row;
    if (!row.has_last_step()) continue;
    const int64_t known = row.number() == judged.attempt ? judged.step + 1 : 0;
    first = std::min(first, std::max(known, row.first_step()));
  }
  return first;
}

absl::Status Judging::Prime(const store::Store& store, const Judged& judged, Attempts* attempts) {
  const auto is_judged = [&judged](const model::StepRow& row) {
    return row.attempt < judged.attempt ||
           (row.attempt == judged.attempt && row.step <= judged.step);
  };
  Showing showing(*attempts, judged.attempt, &evaluator_);
  // Rules that the memory does not know are in an evaluator that is shown everything.
  std::unique_ptr<rules::Evaluator> whole;
  if (evaluator_.LacksRules()) {
    whole = std::make_unique<rules::Evaluator>(rules_, run_, v1::ModelShape());
  }
  Showing showing_whole(*attempts, /*begun=*/0, whole.get());

  // Steps whose points have been downsampled have none to be judged by.
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t raw, store.RawFrom(run_, store::StepRange()));
  const int64_t first =
      std::max(raw, FirstUnjudged(whole == nullptr ? judged : Judged(), *attempts));
  int64_t last_step = -1;  // of the newest attempt that has any
  for (const auto& [number, attempt] : *attempts) {
    if (attempt.row.has_last_step()) last_step = attempt.row.last_step();
  }
  int64_t primed = 0;
  const auto visit = [&](const model::ClosedStep& step) {
    if (whole != nullptr) showing_whole.Show(step);
    if (is_judged(step.row)) return true;
    ++primed;
    if (showing.Show(step)) {
      Attempt& attempt = attempts->at(step.row.attempt);
      ObserveHistory(step, attempt.model, &attempt.history);
    }
    return true;
  };
  // Rules look at few of the series, but far back; the history at a few more, at the end.
  const auto used = [this](const model::SeriesKey& series) {
    return evaluator_.Uses(series) ||
           (series.unit == model::Unit::kNone &&
            (series.indicator == "train.loss" || series.indicator == "train.grad_norm"));
  };
  const store::StepRange recent{.first = std::max(first, last_step - kHistorySteps)};
  const store::StepRange old{.first = first, .last = recent.first - 1};
  if (old.first <= old.last) {
    FORESHOCK_RETURN_IF_ERROR(store::ReadClosedSteps(store, run_, old, visit, used));
  }
  FORESHOCK_RETURN_IF_ERROR(store::ReadClosedSteps(store, run_, recent, visit));
  showing.BeginThrough(attempts->rbegin()->first);
  steps_to_remember_ = primed;
  if (whole != nullptr) {
    showing_whole.BeginThrough(attempts->rbegin()->first);
    evaluator_.TakeLackedRules(whole.get());
  }
  // Where rules have changed, the next step stores what they remember.
  const bool replaced = !attempts->rbegin()->second.row.rules_replaced().empty();
  if (whole != nullptr || replaced) steps_to_remember_ = remember_after();
  base::LogInfo("pipeline",
                judged.attempt > 0 ? "rules go on from what they remembered of a run"
                                   : "rules were shown a run from its first stored step",
                {{"run", run_}, {"steps_shown", absl::StrCat(primed)}});
  return absl::OkStatus();
}

}  // namespace foreshock::pipeline
