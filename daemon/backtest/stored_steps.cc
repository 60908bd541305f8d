#include "daemon/backtest/stored_steps.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/stored_findings.h"
#include "daemon/store/step_reader.h"

namespace foreshock {
namespace {

constexpr int64_t kStepsAtOnce = 4096;

void NoteRankScalars(const ClosedStep& step, RankScalars* rank_scalars) {
  for (const Sample& sample : step.samples) {
    absl::string_view name = sample.series.indicator;
    if (sample.series.unit == Unit::kRank && absl::ConsumePrefix(&name, "train.")) {
      (*rank_scalars)[name].insert(sample.series.unit_id);
    }
  }
}

}  // namespace

absl::Status ReadStoredSteps(const Store& store, const std::string& run,
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
  uint64_t done = 0;
  for (const model::AttemptRow& attempt : attempts) {
    AttemptStart start{.number = attempt.number(), .resume_step = std::nullopt};
    if (attempt.has_resume_step()) start.resume_step = attempt.resume_step();
    sink->BeginAttempt(run, row.model(), start);
    if (!attempt.has_last_step()) continue;
    RankScalars rank_scalars;
    StepRange range{.first = attempt.first_step(), .attempt = attempt.number()};
    for (; range.first <= attempt.last_step(); range.first = range.last + 1) {
      range.last = std::min(attempt.last_step(), range.first + kStepsAtOnce - 1);
      FORESHOCK_RETURN_IF_ERROR(ReadClosedSteps(store, run, range, [&](const ClosedStep& stored) {
        ClosedStep step = stored;
        NoteRankScalars(step, &rank_scalars);
        step.findings = StoredFindings(step, rank_scalars);
        sink->OnStep(step);
        return true;
      }));
      done += range.last - range.first + 1;
      if (progress != nullptr) progress(done, total, range.last);
    }
  }
  return absl::OkStatus();
}

}  // namespace foreshock
