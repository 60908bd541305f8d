// The store: everything the daemon keeps, written in atomic batches, read by step and lineage.
//
//   StoreBatch batch;
//   batch.reports.push_back({.run = "exp-42", .attempt = 1, .report = std::move(shard_report)});
//   FORESHOCK_RETURN_IF_ERROR(store.Write(batch));   // now it survives kill -9
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/series.h"
#include "daemon/model/shards.pb.h"
#include "daemon/model/step.h"

namespace foreshock {

// Applied in the order of its fields. A run that is named here and was never put comes into being
// with its name alone.
struct StoreBatch {
  template <typename Row>
  struct OfRun {
    std::string run{};
    Row row{};
  };
  template <typename Row>
  struct OfAttempt {
    std::string run{};
    uint32_t attempt = 0;
    Row row{};
  };

  std::vector<model::RunRow> runs;                     // put
  std::vector<OfRun<model::AttemptRow>> attempts;      // put
  std::vector<OfAttempt<model::RankRow>> ranks;        // put
  std::vector<OfAttempt<model::ShardReport>> reports;  // put: open statistics
  // Deletes the open statistics of every step <= row of the attempt.
  std::vector<OfAttempt<int64_t>> settled_steps;
  std::vector<ClosedStep> steps;                                // put: step row and points
  std::vector<OfRun<model::AlertRow>> alerts;                   // put
  std::vector<OfRun<model::EventRow>> events;                   // put
  std::vector<OfAttempt<model::CoactivationRow>> coactivation;  // put
  std::vector<OfRun<model::JudgingRow>> judging;                // put: replaces the run's
  std::optional<model::SilencesRow> silences;                   // put: replaces them all

  bool empty() const;
};

// Which steps, and whose values where attempts overlap.
struct StepRange {
  int64_t first = 0;         // inclusive
  int64_t last = INT64_MAX;  // inclusive
  // Unset: the live lineage. A step belongs to the newest attempt whose closed steps
  // [first_step, last_step] include it.
  std::optional<uint32_t> attempt{};
};

struct SeriesFilter {
  std::string indicator{};        // exact, or a prefix ending in '*'; empty: all
  std::vector<int32_t> layers{};  // empty: all
  std::optional<Unit> unit{};
  std::vector<int64_t> unit_ids{};  // empty: all
  std::string unit_name{};          // empty: all

  bool Matches(const SeriesKey& key) const;
};

// What a series did in the steps [first_step, first_step + bucket_steps) of a read. Every field is
// about points inside the range that was asked for.
struct Bucket {
  int64_t first_step = 0;  // a multiple of bucket_steps
  uint64_t count = 0;      // >= 1: steps without a point make no bucket
  double min = 0;
  double mean =
      0;  // finite, in [min, max]; rounded in another order than a sum over points would be
  double max = 0;
  double last = 0;  // the value of the newest step
  int64_t last_step = 0;
  uint32_t attempt = 0;  // of the newest step's point
  uint32_t flags = 0;    // QualityFlag bits of all of them, OR

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct StoreStats {
  uint64_t bytes = 0;  // on disk
  uint64_t series = 0;
  uint64_t points_written = 0;  // since it was opened
  uint64_t batches_written = 0;
  uint64_t open_points = 0;         // written and not in chunks yet, of all runs
  uint64_t points_folded = 0;       // into chunks, since it was opened
  uint64_t fold_failures = 0;       // since it was opened; the log says why
  uint64_t points_downsampled = 0;  // by retention, since it was opened
  uint64_t points_dropped = 0;      // by retention, without those of whole runs
  uint64_t runs_dropped = 0;        // by retention, emptied or deleted
  uint64_t damage_found = 0;        // times it met what the medium has damaged, since it was opened
  bool writable = true;
};

// Thread-safe; writers take turns, reads never wait for them (but may wait up to 15 s while the
// database is reopened after a failed write, then Unavailable). Callbacks return false to stop;
// they are called without a lock held and may use the store. A read sees whole batches, all of one
// moment. Reads of a run that does not exist are NotFound; DataLoss names the key of a corrupt row.
class Store {
 public:
  virtual ~Store() = default;

  // Atomic. OK means: in the write-ahead log, survives the death of the process. Points are put
  // under (series, attempt, step): writing one again replaces it. Values come back as the catalogue
  // stores them: f32 within 2^-24 relative, and what a type cannot hold as f64; or rounded as
  // StoreOptions::precision says.
  // Errors: ResourceExhausted on a full disk (nothing of the batch is stored; writing may be tried
  // again), Unavailable when the medium is read-only or failing, DataLoss when rows it must read
  // are corrupt, FailedPrecondition on a store opened read_only, Internal otherwise (a non-finite
  // point is a caller's bug, for example). After a failed write the next one reopens the database
  // first.
  virtual absl::Status Write(const StoreBatch& batch) = 0;
  // Forces the log to the medium.
  virtual absl::Status Sync() = 0;

  virtual absl::StatusOr<std::vector<model::RunRow>> Runs() const = 0;
  // NotFound, naming the runs there are.
  virtual absl::StatusOr<model::RunRow> Run(const std::string& run) const = 0;
  virtual absl::StatusOr<std::vector<model::AttemptRow>> Attempts(const std::string& run) const = 0;
  virtual absl::StatusOr<std::vector<model::RankRow>> Ranks(const std::string& run,
                                                            uint32_t attempt) const = 0;
  // Open statistics of an attempt, in the order of (step, rank, client_instance, seq).
  virtual absl::Status OpenReports(
      const std::string& run, uint32_t attempt,
      const std::function<bool(const model::ShardReport&)>& visit) const = 0;
  virtual absl::StatusOr<std::vector<model::AlertRow>> Alerts(const std::string& run) const = 0;
  virtual absl::StatusOr<std::vector<model::EventRow>> Events(const std::string& run) const = 0;
  virtual absl::StatusOr<std::vector<model::CoactivationRow>> Coactivation(
      const std::string& run, uint32_t attempt) const = 0;
  // nullopt: the run has none.
  virtual absl::StatusOr<std::optional<model::JudgingRow>> Judging(
      const std::string& run) const = 0;

  virtual absl::StatusOr<model::SilencesRow> Silences() const = 0;

  // All series of the run that match, sorted.
  virtual absl::StatusOr<std::vector<SeriesKey>> Series(const std::string& run,
                                                        const SeriesFilter& filter) const = 0;
  // Points of the series, series after series as given, each in step order; `visit` gets the index
  // in `series`. An unknown series has no points. One call for many series is much cheaper than
  // many calls: what is not in chunks yet is kept by step, and read once per call.
  virtual absl::Status Points(
      const std::string& run, absl::Span<const SeriesKey> series, const StepRange& range,
      const std::function<bool(size_t series, const Point& point)>& visit) const = 0;
  // The same points, one Bucket per series and `bucket_steps` steps that has any. Reads the
  // summaries of chunks where they lie in one bucket. Of downsampled points there are only parts of
  // some steps (a sixteenth of a chunk, 64 steps where points are dense): a part counts whole in
  // the bucket of its first step, also where it is longer than the bucket, and it is in the range
  // if its last step is. InvalidArgument unless bucket_steps is a power of two in [1, 2^62].
  virtual absl::Status Buckets(
      const std::string& run, absl::Span<const SeriesKey> series, const StepRange& range,
      int64_t bucket_steps,
      const std::function<bool(size_t series, const Bucket& bucket)>& visit) const = 0;
  // The first step of the range from which on every point is as it was written. Points before it
  // may have been downsampled (then Buckets still answers, Points does not) or dropped; range.first
  // if none was.
  virtual absl::StatusOr<int64_t> RawFrom(const std::string& run, const StepRange& range) const = 0;
  virtual absl::Status Steps(const std::string& run, const StepRange& range,
                             const std::function<bool(const StepRow&)>& visit) const = 0;

  // Removes everything of a run, for good when it returns; the number of its series. Gives its
  // space back to the file system before it returns, beside other reads and writes.
  virtual absl::StatusOr<uint64_t> DeleteRun(const std::string& run) = 0;

  // Puts the closed steps that the run has now into chunks, which the store otherwise does by
  // itself when there are enough of them. Changes no answer. FailedPrecondition on a store opened
  // read_only; Aborted when the run is deleted meanwhile; else as Write.
  virtual absl::Status Fold(const std::string& run) = 0;

  virtual StoreStats Stats() const = 0;
};

// What is kept of a value. Chosen when it is written; what is stored stays as it is.
enum class Precision : uint8_t {
  kLossless,  // what the catalogue's storage holds
  kDeclared,  // besides, rounded to the relative error that the catalogue declares for an indicator
};

struct StoreOptions {
  std::string directory{};  // created if its parent exists
  uint64_t block_cache_bytes = 16u << 20;
  uint64_t write_buffer_bytes = 16u << 20;  // all column families together
  uint64_t log_bytes_max = 128u << 20;      // caps replay time after a crash
  int open_files_max = 256;
  // Closed points of a run that wait to be put into chunks, at most; fewer in a run of few series.
  // A fold needs 32 bytes of memory for each, a read of all series of all steps up to 48. Beyond
  // four times as many, a write folds them before it returns.
  uint64_t open_points = 1u << 20;
  // A run to which nothing was written for so long is folded whole.
  absl::Duration idle_fold = absl::Minutes(5);
  Precision precision = Precision::kLossless;
  bool read_only = false;
};

// Opens or creates. Errors: FailedPrecondition when another process has it open (named where
// known), when the directory is not empty and no Foreshock store, or when its format is newer;
// PermissionDenied when it cannot be written; NotFound when the parent does not exist;
// ResourceExhausted when the disk is full; DataLoss when it is corrupt. With read_only nothing is
// created or changed, and a store that a daemon has open can be read as it is at this moment.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options);

}  // namespace foreshock
