// One fold: the oldest heads of a run turned from step order into series order and put into chunks.
//
//   FORESHOCK_ASSIGN_OR_RETURN(RunFold fold, RunFold::Of(view, run, points_max));
//   if (!fold.empty()) FORESHOCK_RETURN_IF_ERROR(fold.Write(commit));
//
// It goes to the database in several batches, so that none holds the writer up for long; the last
// one removes the heads. Until then the heads win over what is in chunks already and say the same,
// so a fold that ends in between (a crash, a full disk) has changed no answer, and is done again
// from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/model/step.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/read_view.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

class RunFold {
 public:
  // A batch to write, with how many heads it removes and how many points those hold. May answer no:
  // the fold ends with that.
  using Commit =
      absl::FunctionRef<absl::Status(rocksdb::WriteBatch* batch, uint64_t heads, uint64_t points)>;

  // Takes the oldest heads of each attempt until they hold `points_max` points, at least one.
  // DataLoss names a corrupt head.
  static absl::StatusOr<RunFold> Of(const ReadView& view, uint32_t run, uint64_t points_max);

  bool empty() const { return attempts_.empty(); }
  // These are all heads of the run at the view's moment.
  bool complete() const { return complete_; }

  // Memory: 32 bytes per point, with the heads themselves, and the batch. Between two series
  // `go_on` is asked; the fold ends with the error that it answers. Consumes the fold.
  absl::Status Write(Commit commit, absl::FunctionRef<absl::Status()> go_on);

 private:
  struct Head {
    StepRow row{};
    std::string bytes{};
  };
  struct Attempt {
    uint32_t number = 0;
    uint64_t first_seq = 0;
    uint64_t last_seq = 0;
    uint64_t points = 0;
    std::vector<Head> heads{};  // in the order of their writing
  };
  // One point of an attempt, behind its series.
  struct Cell {
    uint32_t head = 0;
    uint32_t flags = 0;
    double value = 0;
  };
  // The points of an attempt by series: those of series s are cells[starts[s]] to
  // cells[starts[s + 1]], in the order of their writing.
  struct Columns {
    std::vector<uint32_t> starts{};
    std::vector<Cell> cells{};
  };

  RunFold(const ReadView* view, uint32_t run) : view_(view), run_(run) {}
  static absl::StatusOr<Columns> Transpose(absl::Span<const Head> heads);
  absl::Status WriteAttempt(const Attempt& attempt, Commit commit,
                            absl::FunctionRef<absl::Status()> go_on);

  const ReadView* view_;
  uint32_t run_;
  bool complete_ = true;
  std::vector<Attempt> attempts_;
};

}  // namespace foreshock::store
