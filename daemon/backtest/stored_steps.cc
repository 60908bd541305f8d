#include "daemon/backtest/stored_steps.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/stored_findings.h"
#include "daemon/store/step_reader.h"

namespace foreshock::backtest {
namespace {

constexpr int64_t kStepsAtOnce = 4096;
constexpr int64_t kStepsAtOnceLeast = 64;
constexpr int64_t kPointsAtOnce = 1'000'000;

void NoteRankScalars(const model::ClosedStep& step, rules::RankScalars* rank_scalars) {
  for (const model::Sample& sample : step.samples) {
    absl::string_view name = sample.series.indicator;
    if (sample.series.unit == model::Unit::kRank && absl::ConsumePrefix(&name, "train.")) {
      (*rank_scalars)[name].insert(sample.series.unit_id);
    }
  }
}

// How far each rank of an attempt came: what it announced, when it left and when it fell silent is
// derived from it.
class RankProgress {
 public:
  void Add(const model::RankRow& rank) {
    Last& last = ranks_[rank.rank()];
    if (rank.has_last_step()) last.step = std::max(last.step, rank.last_step());
    last.said_goodbye = last.said_goodbye || rank.outcome() != v1::OUTCOME_UNSPECIFIED;
  }

  // What the evaluator is told before it judges a step.
  void Before(const model::StepRow& row, uint32_t world_size, StepSink* sink) {
    std::vector<uint32_t> silent;
    for (auto it = ranks_.begin(); it != ranks_.end();) {
      const auto& [rank, last] = *it;
      if (last.step >= row.step) {
        ++it;
      } else if (last.said_goodbye) {
        sink->RankGone(rank);
        it = ranks_.erase(it);
      } else {
        silent.push_back(rank);
        ++it;
      }
    }
    if (row.ranks < world_size) sink->SetSilentRanks(std::move(silent));
  }

 private:
  struct Last {
    int64_t step = -1;
    bool said_goodbye = false;
  };
  std::map<uint32_t, Last> ranks_;
};

absl::StatusOr<RankProgress> ReadRanks(const store::Store& store, const std::string& run,
                                       const model::AttemptRow& attempt, StepSink* sink) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::RankRow> ranks,
                             store.Ranks(run, attempt.number()));
  RankProgress progress;
  for (const model::RankRow& rank : ranks) {
    sink->DeclarePlan(rank.rank(), attempt.world_size(),
                      std::vector<v1::PlanEntry>(rank.plan().begin(), rank.plan().end()));
    progress.Add(rank);
  }
  return progress;
}

}  // namespace

absl::Status ReadStoredSteps(const store::Store& store, const std::string& run,
                             const StepProgress& progress, StepSink* sink) {
  FORESHOCK_ASSIGN_OR_RETURN(const model::RunRow row, store.Run(run));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, store.Attempts(run));
  uint64_t total = 0;
  for (const model::AttemptRow& attempt : attempts) {
    if (attempt.has_last_step()) total += attempt.last_step() - attempt.first_step() + 1;
  }
  if (total == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("run '", run, "' has no closed step yet: there is nothing to judge"));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::SeriesKey> series, store.Series(run, {}));
  const int64_t steps_at_once =
      std::clamp(kPointsAtOnce / std::max<int64_t>(1, static_cast<int64_t>(series.size())),
                 kStepsAtOnceLeast, kStepsAtOnce);
  uint64_t done = 0;
  std::optional<int64_t> reached;
  for (const model::AttemptRow& attempt : attempts) {
    if (sink->done()) break;
    rules::AttemptStart start{.number = attempt.number(), .reached = reached};
    if (attempt.has_resume_step()) start.resume_step = attempt.resume_step();
    sink->BeginAttempt(run, row.model(), start);
    FORESHOCK_ASSIGN_OR_RETURN(RankProgress ranks, ReadRanks(store, run, attempt, sink));
    if (!attempt.has_last_step()) continue;
    reached = std::max(reached.value_or(attempt.last_step()), attempt.last_step());
    rules::RankScalars rank_scalars;
    store::StepRange range{.first = attempt.first_step(), .attempt = attempt.number()};
    for (; range.first <= attempt.last_step() && !sink->done(); range.first = range.last + 1) {
      range.last = std::min(attempt.last_step(), range.first + steps_at_once - 1);
      FORESHOCK_RETURN_IF_ERROR(store::ReadClosedSteps(
          store, run, range,
          [&](const model::ClosedStep& stored) {
            model::ClosedStep step = stored;
            NoteRankScalars(step, &rank_scalars);
            step.findings = rules::StoredFindings(step, rank_scalars);
            ranks.Before(step.row, attempt.world_size(), sink);
            sink->Tick(step.row.time_unix_ns);
            sink->OnStep(step);
            return !sink->done();
          },
          [sink](const model::SeriesKey& series) { return sink->Wants(series); }));
      done += range.last - range.first + 1;
      if (progress != nullptr) progress(done, total, range.last);
    }
  }
  return absl::OkStatus();
}

}  // namespace foreshock::backtest
