#include "daemon/store/retention_facts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/lineage.h"
#include "daemon/store/reads.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/usage.h"

namespace foreshock::store {
namespace {

bool SaysItEnded(v1::RunState state) {
  return state == v1::RUN_STATE_FINISHED || state == v1::RUN_STATE_FAILED ||
         state == v1::RUN_STATE_PREEMPTED;
}

// Finds the first step of the attempt in [first, last] that is not older than `since`; last + 1 if
// there is none. A step whose time is not known counts as young.
absl::StatusOr<int64_t> FirstYounger(const ReadView& view, uint32_t run, uint32_t attempt,
                                     int64_t first, int64_t last, absl::Time since) {
  int64_t found = last + 1;
  FORESHOCK_RETURN_IF_ERROR(
      ReadSteps(view, run, {first, last, attempt}, [&](const model::StepRow& row) {
        if (row.time_unix_ns != 0 && absl::FromUnixNanos(row.time_unix_ns) < since) return true;
        found = row.step;
        return false;
      }));
  return found;
}

absl::StatusOr<bool> HasSeries(const ReadView& view, uint32_t run) {
  const std::string prefix = KindPrefix(run, RowKind::kSeries);
  RowIterator rows(view, Family::kRows, prefix);
  rows.Seek(prefix);
  const bool any = rows.Valid();
  FORESHOCK_RETURN_IF_ERROR(rows.status());
  return any;
}

absl::StatusOr<AttemptFacts> ReadAttemptFacts(const ReadView& view, uint32_t run,
                                              const model::AttemptRow& row,
                                              const RetentionOptions& options, absl::Time now) {
  FORESHOCK_ASSIGN_OR_RETURN(const RetentionRow done, ReadRetention(view, run, row.number()));
  AttemptFacts facts{
      .number = row.number(), .first_step = row.first_step(), .last_step = row.last_step()};
  facts.downsampled_before = std::max(row.first_step(), done.downsampled_before);
  facts.dropped_before = std::max(row.first_step(), done.dropped_before);
  facts.raw_age_step = facts.downsampled_before;
  facts.kept_age_step = facts.dropped_before;
  if (options.raw_for > absl::ZeroDuration()) {
    FORESHOCK_ASSIGN_OR_RETURN(facts.raw_age_step,
                               FirstYounger(view, run, row.number(), facts.downsampled_before,
                                            row.last_step(), now - options.raw_for));
  }
  if (options.downsampled_for > absl::ZeroDuration()) {
    FORESHOCK_ASSIGN_OR_RETURN(facts.kept_age_step,
                               FirstYounger(view, run, row.number(), facts.dropped_before,
                                            row.last_step(), now - options.downsampled_for));
  }
  return facts;
}

}  // namespace

absl::StatusOr<RunFacts> ReadRunFacts(const ReadView& view, uint32_t run, const model::RunRow& row,
                                      const RetentionOptions& options, absl::Time now) {
  RunFacts facts{.name = row.name(), .newest = absl::FromUnixNanos(row.created_unix_ns())};
  facts.bytes = RunBytes(view.database(), run);
  FORESHOCK_ASSIGN_OR_RETURN(const bool has_series, HasSeries(view, run));
  facts.empty = !has_series;
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run));
  for (const model::AttemptRow& attempt : attempts) {
    facts.newest = std::max(facts.newest, absl::FromUnixNanos(attempt.started_unix_ns()));
    facts.ended = SaysItEnded(attempt.state());
    if (!attempt.has_first_step() || !attempt.has_last_step()) continue;
    FORESHOCK_ASSIGN_OR_RETURN(facts.attempts.emplace_back(),
                               ReadAttemptFacts(view, run, attempt, options, now));
    FORESHOCK_ASSIGN_OR_RETURN(const int64_t newest, NewestTime(view, run, attempt));
    facts.newest = std::max(facts.newest, absl::FromUnixNanos(newest));
  }
  return facts;
}

absl::StatusOr<RetentionRow> ReadRetention(const ReadView& view, uint32_t run, uint32_t attempt) {
  const std::string key = RetentionKey(run, attempt);
  RetentionRow row;
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, view.Get(Family::kRows, key));
  if (bytes.has_value() && !DecodeRetention(*bytes, &row)) {
    return CorruptRow(FamilyName(Family::kRows), key, "retention row", *bytes);
  }
  return row;
}

absl::StatusOr<int64_t> NewestTime(const ReadView& view, uint32_t run,
                                   const model::AttemptRow& attempt) {
  FORESHOCK_ASSIGN_OR_RETURN(const RetentionRow row, ReadRetention(view, run, attempt.number()));
  int64_t newest = row.newest_unix_ns;
  const int64_t last = attempt.last_step();
  FORESHOCK_RETURN_IF_ERROR(
      ReadSteps(view, run, {last, last, attempt.number()}, [&newest](const model::StepRow& step) {
        newest = std::max(newest, step.time_unix_ns);
        return true;
      }));
  return newest;
}

absl::StatusOr<int64_t> ReadRawFrom(const ReadView& view, uint32_t run, const StepRange& range) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run));
  int64_t raw_from = range.first;
  for (const Stretch& stretch : Stretches(attempts, range)) {
    FORESHOCK_ASSIGN_OR_RETURN(const RetentionRow row, ReadRetention(view, run, stretch.attempt));
    if (row.raw_from <= stretch.first) continue;
    const bool to_the_end = stretch.last == std::numeric_limits<int64_t>::max();
    raw_from =
        std::max(raw_from, to_the_end ? row.raw_from : std::min(row.raw_from, stretch.last + 1));
  }
  return raw_from;
}

}  // namespace foreshock::store
