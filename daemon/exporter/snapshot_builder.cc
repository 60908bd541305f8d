#include "daemon/exporter/snapshot_builder.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "daemon/base/check.h"
#include "daemon/exporter/layer_values.h"

namespace foreshock::exporter {
namespace {

constexpr char kOther[] = "other";

// Adds to the pair's count, or to ("other", "other") once `max` pairs are there.
void CountPair(std::string first, std::string second, uint64_t count, size_t max,
               std::map<std::pair<std::string, std::string>, uint64_t>* counts) {
  const std::pair<std::string, std::string> key{std::move(first), std::move(second)};
  const auto it = counts->find(key);
  if (it != counts->end()) {
    it->second += count;
  } else if (counts->size() < max) {
    (*counts)[key] = count;
  } else {
    (*counts)[{kOther, kOther}] += count;
  }
}

// True for the indicator itself and for the family it belongs to: "attn.delta2".
bool Covers(absl::string_view id_or_family, absl::string_view id) {
  return absl::StartsWith(id, id_or_family) &&
         (id.size() == id_or_family.size() || id[id_or_family.size()] == '.');
}

bool SameGroup(const model::SeriesKey& a, const model::SeriesKey& b) {
  return a.layer == b.layer && a.unit == b.unit && a.indicator == b.indicator;
}

// Puts the values of a layer in its place in the order of (layer, unit).
void PutLayer(const LayerValues& values, IndicatorSnapshot* indicator) {
  const auto order = [](const LayerValues& a, const LayerValues& b) {
    return std::pair(a.layer, a.unit) < std::pair(b.layer, b.unit);
  };
  auto& layers = indicator->layers;
  const auto at = std::lower_bound(layers.begin(), layers.end(), values, order);
  if (at != layers.end() && !order(values, *at)) {
    *at = values;
  } else {
    layers.insert(at, values);
  }
}

}  // namespace

SnapshotBuilder::SnapshotBuilder(SnapshotOptions options, const base::Clock* clock)
    : options_(options), clock_(clock), latest_(std::make_shared<const Snapshot>()) {
  FORESHOCK_CHECK(clock != nullptr && options.runs_max > 0);
}

RunSnapshot& SnapshotBuilder::Change(const std::string& run) {
  Entry& entry = runs_[run];
  if (entry.working == nullptr) {
    entry.working = std::make_shared<RunSnapshot>();
    entry.working->run = run;
    entry.working->last_update = clock_->Now();
  }
  entry.published = nullptr;
  return *entry.working;
}

void SnapshotBuilder::Observe(const model::ClosedStep& step) {
  RunSnapshot& run = Change(step.run);
  const model::StepRow& row = step.row;
  if (row.late) {  // a re-merge: what is in it was counted when the step closed
    ++run.steps_late;
  } else {
    CountFindings(step, &run);
    CountUndefined(step);
    ++run.steps_closed;
    run.steps_partial += row.partial ? 1 : 0;
    run.steps_skipped += row.skipped ? 1 : 0;
    run.tokens += row.tokens;
  }
  const bool new_attempt = row.attempt > run.attempts || !run.has_step;
  const bool newest = row.attempt >= run.attempts && (new_attempt || row.step >= run.last_step);
  if (newest) {
    if (row.attempt > run.attempts) run.indicators.clear();
    run.attempts = row.attempt;
    run.has_step = true;
    run.last_step = row.step;
    run.ranks_in_step = row.ranks;
    if (!row.late) run.last_update = clock_->Now();
    ReplaceValues(step, &run);
  }
}

void SnapshotBuilder::Restore(const model::ClosedStep& step) {
  RunSnapshot& run = Change(step.run);
  run.has_step = true;
  run.last_step = step.row.step;
  run.ranks_in_step = step.row.ranks;
  if (step.row.time_unix_ns != 0) {
    run.last_update = std::min(clock_->Now(), absl::FromUnixNanos(step.row.time_unix_ns));
  }
  ReplaceValues(step, &run);
}

void SnapshotBuilder::ReplaceValues(const model::ClosedStep& step, RunSnapshot* run) const {
  const absl::Span<const model::Sample> samples = step.samples;
  for (size_t begin = 0; begin < samples.size();) {
    const model::SeriesKey& key = samples[begin].series;
    size_t end = begin;
    uint32_t flags = 0;
    while (end < samples.size() && SameGroup(samples[end].series, key)) {
      flags |= samples[end++].flags;
    }
    const absl::Span<const model::Sample> group = samples.subspan(begin, end - begin);
    begin = end;

    auto [it, added] = run->indicators.try_emplace(key.indicator);
    IndicatorSnapshot& indicator = it->second;
    if (added || indicator.last_step != step.row.step) indicator.valid = true;
    indicator.last_step = step.row.step;
    if ((flags & model::kFlagsNotJudged) != 0) indicator.valid = false;
    PutLayer(internal::Reduce(group), &indicator);
    std::erase_if(indicator.offenders,
                  [&](const Offender& o) { return o.layer == key.layer && o.unit == key.unit; });
    internal::AppendOffenders(group, options_.top_k, &indicator.offenders);
  }
  for (const model::Undefined& undefined : step.undefined) {
    for (auto& [id, indicator] : run->indicators) {
      if (Covers(undefined.indicator, id)) indicator.valid = false;
    }
  }
}

void SnapshotBuilder::CountFindings(const model::ClosedStep& step, RunSnapshot* run) const {
  for (const model::Finding& finding : step.findings) {
    if (finding.kind == model::Finding::Kind::kReplicaMismatch) {
      run->replica_mismatches += finding.count;
    } else {
      CountPair(finding.name, absl::StrCat(finding.rank), finding.count, options_.nonfinite_max,
                &run->nonfinite);
    }
  }
}

void SnapshotBuilder::CountUndefined(const model::ClosedStep& step) {
  for (const model::Undefined& undefined : step.undefined) {
    CountPair(undefined.indicator, undefined.reason, undefined.count, options_.undefined_max,
              &undefined_);
  }
}

void SnapshotBuilder::SetRun(const RunStatus& status) {
  RunSnapshot& run = Change(status.run);
  const bool changed = run.state != status.state;
  run.state = status.state;
  run.world_size = status.world_size;
  run.ranks_connected = status.ranks_connected;
  if (status.attempt > run.attempts) {
    run.attempts = status.attempt;
    run.indicators.clear();
    run.has_step = false;
  }
  if (status.state == v1::RUN_STATE_LIVE) {
    run.leaves_at = absl::InfiniteFuture();
  } else if (changed || run.leaves_at == absl::InfiniteFuture()) {
    run.leaves_at =
        clock_->Steady() +
        (status.state == v1::RUN_STATE_SILENT ? options_.silent_stay : options_.finished_stay);
  }
}

void SnapshotBuilder::SetAlert(const v1::Alert& alert) {
  RunSnapshot& run = Change(alert.run());
  // Alerts of one rule in other layers share a series, and a severity may rise while firing.
  for (auto& [key, firing] : run.alerts) {
    if (key.rule == alert.rule()) firing.erase(alert.id());
  }
  auto& firing = run.alerts[{alert.rule(), alert.severity(), alert.fault()}];
  if (alert.state() == v1::ALERT_STATE_FIRING) firing.insert(alert.id());
}

void SnapshotBuilder::RemoveRun(const std::string& run) { runs_.erase(run); }

void SnapshotBuilder::DropOldRuns() {
  const absl::Time now = clock_->Steady();
  std::erase_if(runs_, [&](const auto& entry) { return entry.second.working->leaves_at <= now; });
  while (runs_.size() > options_.runs_max) {
    runs_.erase(std::min_element(runs_.begin(), runs_.end(), [](const auto& a, const auto& b) {
      return a.second.working->last_update < b.second.working->last_update;
    }));
  }
}

void SnapshotBuilder::Publish() {
  DropOldRuns();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->undefined = undefined_;
  for (auto& [name, entry] : runs_) {
    if (entry.published == nullptr) {
      entry.published = std::make_shared<const RunSnapshot>(*entry.working);
    }
    snapshot->runs.push_back(entry.published);
  }
  std::stable_sort(snapshot->runs.begin(), snapshot->runs.end(),
                   [](const auto& a, const auto& b) { return a->last_update > b->last_update; });
  base::MutexLock lock(&mutex_);
  latest_ = std::move(snapshot);
}

std::shared_ptr<const Snapshot> SnapshotBuilder::Latest() const {
  base::MutexLock lock(&mutex_);
  return latest_;
}

}  // namespace foreshock::exporter
