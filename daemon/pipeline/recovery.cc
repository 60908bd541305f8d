// Reading a run back from the store: RunState::Load and what it needs.

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/pipeline/run_state.h"
#include "daemon/store/step_reader.h"

namespace foreshock {
namespace {

// The steps in which History looks at every series (dead experts: 200 steps in blocks of ten).
constexpr int64_t kHistorySteps = 300;
// Of History's fields and their meaning; another number makes a restart read it back from points.
constexpr uint32_t kHistoryVersion = 1;
// Of what a run's rules remember; a run with more is judged from its start after a restart. Rows
// that are larger than the store's write buffer would hold up the writes behind them.
constexpr size_t kMemoryBytesMax = 16u << 20;

// Feeds what Finish would have fed, from the stored points of a step.
void ObserveHistory(const ClosedStep& step, const v1::ModelShape& model, History* history) {
  std::map<uint32_t, std::vector<double>> shares_by_layer;
  history->ObserveTime(step.row.step, step.row.time_unix_ns);
  for (const Sample& sample : step.samples) {
    const SeriesKey& series = sample.series;
    if (series.unit == Unit::kNone && series.indicator == "train.loss") {
      history->ObserveScalar("loss", step.row.step, sample.value);
    } else if (series.unit == Unit::kNone && series.indicator == "train.grad_norm") {
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

std::string RememberHistory(History* history) {
  uint32_t version = kHistoryVersion;
  Archive archive;
  archive.Take(&version);
  history->Fields(&archive);
  return archive.bytes();
}

int64_t KibOf(const model::JudgingRow& row) {
  return static_cast<int64_t>(row.ByteSizeLong() >> 10);
}

std::optional<History> RecallHistory(absl::string_view bytes) {
  uint32_t version = 0;
  History history;
  Archive archive(bytes);
  archive.Take(&version);
  if (version != kHistoryVersion) return std::nullopt;
  history.Fields(&archive);
  return archive.AtEnd() ? std::optional(std::move(history)) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<model::AlertRow>> RunState::Load(const Store& store, absl::Time now) {
  FORESHOCK_ASSIGN_OR_RETURN(row_, store.Run(run_));
  known_ = true;
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::AttemptRow> attempts, store.Attempts(run_));
  for (model::AttemptRow& attempt : attempts) {
    FORESHOCK_RETURN_IF_ERROR(LoadAttempt(store, std::move(attempt), now));
  }
  std::vector<model::AlertRow> unresolved;
  if (attempts_.empty()) return unresolved;

  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::EventRow> events, store.Events(run_));
  for (const model::EventRow& row : events) {
    events_.insert(EventIdentity(row));
    if (row.waits()) declared_.push_back(row);
  }
  evaluator_ = std::make_unique<Evaluator>(rules_, run_, row_.model());
  FORESHOCK_RETURN_IF_ERROR(PrimeRules(store));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AlertRow> alerts, store.Alerts(run_));
  for (const model::AlertRow& row : alerts) {
    const bool resolved = row.alert().state() == v1::ALERT_STATE_RESOLVED;
    if (!resolved || row.undelivered()) alerts_[row.alert().id()] = row;
    if (resolved) continue;
    FORESHOCK_RETURN_IF_ERROR(
        Annotate(evaluator_->Restore(row), absl::StrCat("alert ", row.alert().id())));
    unresolved.push_back(row);
  }
  return unresolved;
}

absl::Status RunState::LoadAttempt(const Store& store, model::AttemptRow row, absl::Time now) {
  const uint32_t number = row.number();
  Attempt& attempt = attempts_[number];
  attempt.row = std::move(row);
  attempt.model = row_.model();
  attempt.open_steps = std::make_unique<OpenSteps>(options_.open_steps, attempt.row.world_size());

  std::vector<model::ShardReport> reports;
  FORESHOCK_RETURN_IF_ERROR(
      store.OpenReports(run_, number, [&reports](const model::ShardReport& report) {
        reports.push_back(report);
        return true;
      }));
  if (attempt.row.has_last_step()) {
    const int64_t settled = reports.empty() ? attempt.row.last_step() : reports.front().step() - 1;
    attempt.settled_written = settled;
    attempt.open_steps->RestoreClosed(attempt.row.last_step(), settled);
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::RankRow> ranks, store.Ranks(run_, number));
  // Several processes may have spoken for a rank, one after the other.
  std::map<uint32_t, std::pair<int64_t, bool>> progress;  // (done through, gone) by rank
  for (const model::RankRow& rank : ranks) {
    attempt.ranks[{rank.rank(), rank.client_instance()}] = rank;
    auto& [done_through, gone] = progress.try_emplace(rank.rank(), -1, false).first->second;
    if (rank.has_last_step()) done_through = std::max(done_through, rank.last_step());
    gone = gone || rank.outcome() != v1::OUTCOME_UNSPECIFIED;
  }
  for (const auto& [rank, state] : progress) {
    attempt.open_steps->RestoreRank(rank, state.first, state.second);
  }
  for (const model::ShardReport& report : reports) {
    attempt.open_steps->RestoreReport(report, now);
  }
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::CoactivationRow> coactivation,
                             store.Coactivation(run_, number));
  for (model::CoactivationRow& layer : coactivation) {
    attempt.coactivation[layer.layer()] = std::move(layer);
  }
  return absl::OkStatus();
}

// What the evaluator remembered of the steps before counts as if it had been shown them.
absl::StatusOr<RunState::Judged> RunState::RecallRules(const Store& store) {
  const absl::StatusOr<std::optional<model::JudgingRow>> row = store.Judging(run_);
  if (absl::IsDataLoss(row.status())) {
    LogWarning("pipeline", "what the rules remembered is lost: judging the run from its start",
               {{"run", run_}, {"error", std::string(row.status().message())}});
    return Judged();
  }
  FORESHOCK_RETURN_IF_ERROR(row.status());
  if (!row->has_value()) return Judged();
  const model::JudgingRow& remembered = **row;
  const auto attempt = attempts_.find(remembered.attempt());
  std::optional<History> history = RecallHistory(remembered.history());
  if (attempt == attempts_.end() || !history.has_value() ||
      !evaluator_->Recall(remembered.memory())) {
    return Judged();
  }
  attempt->second.history = *std::move(history);
  DeclarePlans(attempt->second);
  remembered_kib_ = KibOf(remembered);
  return Judged{.attempt = remembered.attempt(), .step = remembered.step()};
}

void RunState::RememberRules(StoreBatch* batch) {
  Attempt& newest = attempts_.rbegin()->second;
  steps_to_remember_ = 0;
  model::JudgingRow row;
  row.set_attempt(newest.row.number());
  row.set_step(newest.row.has_last_step() ? newest.row.last_step() : -1);
  row.set_memory(evaluator_->Remember());
  row.set_history(RememberHistory(&newest.history));
  remembered_kib_ = KibOf(row);
  if (row.ByteSizeLong() > kMemoryBytesMax) return;
  batch->judging.push_back({run_, std::move(row)});
}

absl::Status RunState::PrimeRules(const Store& store) {
  FORESHOCK_ASSIGN_OR_RETURN(const Judged judged, RecallRules(store));
  uint32_t begun = judged.attempt;
  // Attempts without a step in the lineage have begun as well.
  const auto begin_through = [this, &begun](uint32_t number) {
    for (auto it = attempts_.upper_bound(begun); it != attempts_.upper_bound(number); ++it) {
      BeginJudging(it->first);
    }
    begun = std::max(begun, number);
  };
  const auto is_judged = [&judged](const StepRow& row) {
    return row.attempt < judged.attempt ||
           (row.attempt == judged.attempt && row.step <= judged.step);
  };

  // Steps whose points have been downsampled have none to be judged by.
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t raw, store.RawFrom(run_, StepRange()));
  int64_t last_step = -1;
  int64_t first = std::numeric_limits<int64_t>::max();  // of those that are not judged
  for (const auto& [number, attempt] : attempts_) {
    if (!attempt.row.has_last_step()) continue;
    last_step = attempt.row.last_step();
    if (number < judged.attempt) continue;
    const int64_t known = number == judged.attempt ? judged.step + 1 : 0;
    first = std::min(first, std::max(known, attempt.row.first_step()));
  }
  int64_t primed = 0;
  const auto visit = [&](const ClosedStep& step) {
    if (is_judged(step.row)) return true;
    const bool overtaken = step.row.attempt < begun;
    if (!overtaken) {
      begin_through(step.row.attempt);
      ObserveHistory(step, row_.model(), &attempts_.at(step.row.attempt).history);
    }
    ++primed;
    // Steps of an attempt that a newer one overtook, beyond the newer one's end, are not the past
    // of anything, but a resume is judged by them.
    if (overtaken) {
      evaluator_->PrimeOvertaken(step);
    } else {
      evaluator_->Prime(step);
    }
    return true;
  };
  // Rules look at few of the series, but far back; the history at a few more, at the end.
  const auto used = [this](const SeriesKey& series) {
    return evaluator_->Uses(series) ||
           (series.unit == Unit::kNone &&
            (series.indicator == "train.loss" || series.indicator == "train.grad_norm"));
  };
  first = std::max(raw, first);
  const StepRange recent{.first = std::max(first, last_step - kHistorySteps)};
  const StepRange old{.first = first, .last = recent.first - 1};
  if (old.first <= old.last) {
    FORESHOCK_RETURN_IF_ERROR(ReadClosedSteps(store, run_, old, visit, used));
  }
  FORESHOCK_RETURN_IF_ERROR(ReadClosedSteps(store, run_, recent, visit));
  begin_through(attempts_.rbegin()->first);
  steps_to_remember_ = primed;
  LogInfo("pipeline",
          judged.attempt > 0 ? "rules go on from what they remembered of a run"
                             : "rules were shown a run from its first stored step",
          {{"run", run_}, {"steps_shown", absl::StrCat(primed)}});
  return absl::OkStatus();
}

}  // namespace foreshock
