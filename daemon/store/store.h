// The store: everything that the daemon keeps. It is written in atomic batches and read by step.
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

namespace foreshock::store {

// Is applied in the order of its fields. A run that is named here but was never put gets a row with
// its name alone.
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
  std::vector<model::ClosedStep> steps;                         // put: step row and points
  std::vector<OfRun<model::AlertRow>> alerts;                   // put
  std::vector<OfRun<model::EventRow>> events;                   // put
  std::vector<OfAttempt<model::CoactivationRow>> coactivation;  // put
  std::vector<OfRun<model::JudgingRow>> judging;                // put: replaces the run's
  std::optional<model::SilencesRow> silences;                   // put: replaces them all

  bool empty() const;
};

// Which steps, and of which attempt where attempts overlap.
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
  std::optional<model::Unit> unit{};
  std::vector<int64_t> unit_ids{};  // empty: all
  std::string unit_name{};          // empty: all

  bool Matches(const model::SeriesKey& key) const;
};

// Sums up a series over the steps [first_step, first_step + bucket_steps). Every field is about
// points inside the range of the read.
struct Bucket {
  int64_t first_step = 0;  // a multiple of bucket_steps
  uint64_t count = 0;      // >= 1: steps without a point make no bucket
  double min = 0;
  // Finite, in [min, max]. It is not summed up in step order, so its last digits may differ.
  double mean = 0;
  double max = 0;
  double last = 0;  // the value of the newest step
  int64_t last_step = 0;
  uint32_t attempt = 0;  // of the newest step's point
  uint32_t flags = 0;    // QualityFlag bits of all points, OR

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
  uint64_t damage_found = 0;        // how often it met damaged bytes, since it was opened
  bool writable = true;
};

// Thread-safe. Writers take turns, and reads do not wait for them. While the database is reopened
// after a failed write a read waits, for 15 s at most, then it is Unavailable. Callbacks return
// false to stop; they are called without a lock held and may use the store. A read sees whole
// batches, all of one moment. It is NotFound if the run does not exist; DataLoss names the key of a
// corrupt row.
class Store {
 public:
  virtual ~Store() = default;

  // Atomic. After OK the batch is in the write-ahead log and survives the death of the process.
  // Points lie under (series, attempt, step): writing one again replaces it. Values come back as
  // the catalogue stores them: f32 within 2^-24 relative, as f64 where the type cannot hold them,
  // or rounded as StoreOptions::precision says. Errors: ResourceExhausted on a full disk; nothing
  // of the batch is stored, try again later. Unavailable when the medium is read-only or fails.
  // DataLoss when rows that it must read are corrupt. FailedPrecondition on a store opened
  // read_only. Internal otherwise, for example for a non-finite point, which is a bug of the
  // caller. After a failed write the next one reopens the database first.
  virtual absl::Status Write(const StoreBatch& batch) = 0;
  // Forces the write-ahead log to the medium.
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

  // Returns all series of the run that match, sorted.
  virtual absl::StatusOr<std::vector<model::SeriesKey>> Series(
      const std::string& run, const SeriesFilter& filter) const = 0;
  // Visits the points of each series in the given order, each in step order; `visit` gets the index
  // in `series`. An unknown series has no points. One call for many series is much cheaper than
  // many calls: points outside chunks lie by step, and are read once per call.
  virtual absl::Status Points(
      const std::string& run, absl::Span<const model::SeriesKey> series, const StepRange& range,
      const std::function<bool(size_t series, const model::Point& point)>& visit) const = 0;
  // Visits the same points as one Bucket per series and `bucket_steps` steps; empty buckets are
  // left out. Of a chunk that lies in one bucket it reads only the summary. Downsampled points are
  // parts of some steps (a sixteenth of a chunk, 64 steps where points are dense). A part counts
  // whole in the bucket of its first step, even if it is longer than the bucket; it is in the range
  // if its last step is. InvalidArgument unless bucket_steps is a power of two in [1, 2^62].
  virtual absl::Status Buckets(
      const std::string& run, absl::Span<const model::SeriesKey> series, const StepRange& range,
      int64_t bucket_steps,
      const std::function<bool(size_t series, const Bucket& bucket)>& visit) const = 0;
  // Returns the first step of the range from which on all points are raw; range.first if all are.
  // Points before it may be downsampled, so that only Buckets has them, or dropped.
  virtual absl::StatusOr<int64_t> RawFrom(const std::string& run, const StepRange& range) const = 0;
  virtual absl::Status Steps(const std::string& run, const StepRange& range,
                             const std::function<bool(const model::StepRow&)>& visit) const = 0;

  // Removes everything of a run and returns the number of its series. When it returns, the run is
  // gone for good and its space is given back. Other reads and writes go on meanwhile.
  virtual absl::StatusOr<uint64_t> DeleteRun(const std::string& run) = 0;

  // Puts the closed steps that the run has now into chunks. The store does it by itself when there
  // are enough of them. It changes no answer. FailedPrecondition on a store opened read_only;
  // Aborted when a run is deleted meanwhile; else as Write.
  virtual absl::Status Fold(const std::string& run) = 0;

  virtual StoreStats Stats() const = 0;
};

// How exactly a value is kept. It affects new values only.
enum class Precision : uint8_t {
  kLossless,  // what the catalogue's storage holds
  kDeclared,  // also rounded to the relative error that the catalogue declares for its indicator
};

struct StoreOptions {
  std::string directory{};  // created if its parent exists
  uint64_t block_cache_bytes = 16u << 20;
  uint64_t write_buffer_bytes = 16u << 20;  // all column families together
  uint64_t log_bytes_max = 128u << 20;      // caps replay time after a crash
  int open_files_max = 256;
  // The most points of a run outside chunks; a run of few series has fewer. A fold needs 32 bytes
  // of memory for each, a read of all series and steps up to 48. With four times as many points, a
  // write folds them before it returns.
  uint64_t open_points = 1u << 20;
  // A run without writes for so long is folded whole.
  absl::Duration idle_fold = absl::Minutes(5);
  Precision precision = Precision::kLossless;
  bool read_only = false;
};

// Opens or creates a store. FailedPrecondition: another process has it open (named where known),
// the directory is not empty and no Foreshock store, or it has another format. PermissionDenied: it
// cannot be written. NotFound: the parent does not exist. ResourceExhausted: the disk is full.
// DataLoss: it is corrupt. With read_only nothing is created or changed, and a store that a daemon
// has open can be read as it is at this moment.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options);

}  // namespace foreshock::store
