// Keeps the newest values of every run and publishes them as immutable snapshots.
//
//   SnapshotBuilder builder({.top_k = 3}, &clock);
//   builder.SetRun({.run = "exp-42", .state = v1::RUN_STATE_LIVE, .attempt = 1, .world_size = 8});
//   for (const ClosedStep& step : committed) builder.Observe(step);
//   builder.Publish();                                    // once per commit is enough
//   std::shared_ptr<const Snapshot> now = builder.Latest();   // from any thread
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/exporter/snapshot.h"
#include "daemon/model/step.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::exporter {

struct SnapshotOptions {
  uint32_t top_k = 3;                                // units shown per layer and side
  absl::Duration finished_stay = absl::Minutes(15);  // after the end of a run
  absl::Duration silent_stay = absl::Hours(24);      // after the last rank fell silent
  size_t runs_max = 100;                             // more: the longest unchanged leave
  size_t nonfinite_max = 64;    // (name, rank) pairs of a run; more count as "other"
  size_t undefined_max = 1000;  // (indicator, reason) pairs; more count as "other"
};

struct RunStatus {
  std::string run;
  v1::RunState state = v1::RUN_STATE_LIVE;
  uint32_t attempt = 1;
  uint32_t world_size = 0;
  uint32_t ranks_connected = 0;
};

// Thread-compatible (the writer's thread); Latest is thread-safe.
class SnapshotBuilder {
 public:
  SnapshotBuilder(SnapshotOptions options, const base::Clock* clock);

  // Values of a step older than what is shown, late ones included, count but do not replace. The
  // first step of a new attempt clears the values of the one before.
  void Observe(const model::ClosedStep& step);
  // After a restart and SetRun: shows the values of a step that closed before the start, and counts
  // nothing. In step order; the last one is the newest that has closed.
  void Restore(const model::ClosedStep& step);

  // State, attempt or connections of a run changed.
  void SetRun(const RunStatus& status);
  // An alert changed: pending and resolved show as 0.
  void SetAlert(const v1::Alert& alert);
  // The run was deleted.
  void RemoveRun(const std::string& run);

  // Makes what was told so far visible; drops the runs whose time is over.
  void Publish();

  // Never null.
  std::shared_ptr<const Snapshot> Latest() const;

 private:
  struct Entry {
    std::shared_ptr<RunSnapshot> working;
    std::shared_ptr<const RunSnapshot> published;  // null: changed since
  };

  RunSnapshot& Change(const std::string& run);
  void ReplaceValues(const model::ClosedStep& step, RunSnapshot* run) const;
  void CountFindings(const model::ClosedStep& step, RunSnapshot* run) const;
  void CountUndefined(const model::ClosedStep& step);
  void DropOldRuns();

  const SnapshotOptions options_;
  const base::Clock* const clock_;
  std::map<std::string, Entry> runs_;
  std::map<std::pair<std::string, std::string>, uint64_t> undefined_;

  mutable base::Mutex mutex_;
  std::shared_ptr<const Snapshot> latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::exporter
