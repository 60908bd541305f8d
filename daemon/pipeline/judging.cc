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
constexpr uint32_t kHistoryVersion = 1;
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
  archive.Take(&version);
  history->Fields(&archive);
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
  history.Fields(&archive);
  return archive.AtEnd() ? std::optional(std::move(history)) : std::nullopt;
}

}  // namespace

Judging::Judging(std::string run, int64_t remember_steps,
                 std::shared_ptr<const rules::RuleSet> rules, PipelineStats* stats)
    : run_(std::move(run)),
      remember_steps_(remember_steps),
      stats_(stats),
      rules_(std::move(rules)),
      evaluator_(rules_, run_, v1::ModelShape()) {}

void Judging::BeginAttempt(const Attempts& attempts, uint32_t number) {
  const Attempt& attempt = attempts.at(number);
  rules::AttemptStart start{.number = number};
  if (attempt.row.has_resume_step()) start.resume_step = attempt.row.resume_step();
  for (const auto& [other, before] : attempts) {
    if (other >= number || !before.row.has_last_step()) continue;
    start.reached = std::max(start.reached.value_or(-1), before.row.last_step());
  }
  start.model_layers = attempt.model.layers();
  evaluator_.BeginAttempt(start);
  DeclarePlans(attempt);
}

void Judging::DeclarePlans(const Attempt& attempt) {
  for (const auto& [number, rank] : attempt.speakers.ranks()) {
    for (const auto& [instance, process] : rank.processes) {
      const auto& plan = process.row.plan();
      evaluator_.DeclarePlan(number, attempt.row.world_size(),
                             std::vector<v1::PlanEntry>(plan.begin(), plan.end()));
    }
    if (rank.outcome != v1::OUTCOME_UNSPECIFIED) evaluator_.RankGone(number);
  }
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
  if (++steps_to_remember_ >= remember_after()) Remember(newest, batch);
  return rows;
}

std::vector<model::AlertRow> Judging::ReplaceRules(std::shared_ptr<const rules::RuleSet> rules) {
  rules_ = std::move(rules);
  // What was remembered is of the old rules. It is replaced with the next step, not now: a reload
  // changes all runs in one batch.
  steps_to_remember_ = remember_after();
  return evaluator_.ReplaceRules(rules_);
}

void Judging::Remember(Attempt* newest, store::StoreBatch* batch) {
  steps_to_remember_ = 0;
  model::JudgingRow row;
  row.set_attempt(newest->number());
  row.set_step(newest->row.has_last_step() ? newest->row.last_step() : -1);
  row.set_memory(evaluator_.Remember());
  row.set_history(RememberHistory(&newest->history));
  remembered_kib_ = KibOf(row);
  if (row.ByteSizeLong() > kMemoryBytesMax) return;
  batch->judging.push_back({run_, std::move(row)});
}

absl::Status Judging::Load(const store::Store& store, Attempts* attempts) {
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
  DeclarePlans(attempt->second);
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
  uint32_t begun = judged.attempt;
  // An attempt without a step in the lineage has begun as well.
  const auto begin_through = [&](uint32_t number) {
    for (auto it = attempts->upper_bound(begun); it != attempts->upper_bound(number); ++it) {
      BeginAttempt(*attempts, it->first);
    }
    begun = std::max(begun, number);
  };
  const auto is_judged = [&judged](const model::StepRow& row) {
    return row.attempt < judged.attempt ||
           (row.attempt == judged.attempt && row.step <= judged.step);
  };

  // Steps whose points have been downsampled have none to be judged by.
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t raw, store.RawFrom(run_, store::StepRange()));
  const int64_t first = std::max(raw, FirstUnjudged(judged, *attempts));
  int64_t last_step = -1;  // of the newest attempt that has any
  for (const auto& [number, attempt] : *attempts) {
    if (attempt.row.has_last_step()) last_step = attempt.row.last_step();
  }
  int64_t primed = 0;
  const auto visit = [&](const model::ClosedStep& step) {
    if (is_judged(step.row)) return true;
    const bool overtaken = step.row.attempt < begun;
    if (!overtaken) {
      begin_through(step.row.attempt);
      Attempt& attempt = attempts->at(step.row.attempt);
      ObserveHistory(step, attempt.model, &attempt.history);
    }
    ++primed;
    // A newer attempt has begun after these steps and has yet to reach them. They are no past of
    // its steps, but a resume is judged by them.
    if (overtaken) {
      evaluator_.PrimeOvertaken(step);
    } else {
      evaluator_.Prime(step);
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
  begin_through(attempts->rbegin()->first);
  steps_to_remember_ = primed;
  base::LogInfo("pipeline",
                judged.attempt > 0 ? "rules go on from what they remembered of a run"
                                   : "rules were shown a run from its first stored step",
                {{"run", run_}, {"steps_shown", absl::StrCat(primed)}});
  return absl::OkStatus();
}

}  // namespace foreshock::pipeline
