// One fold: turns the oldest heads of a run from step order into series order, and puts them into
// chunks.
//
//   FORESHOCK_ASSIGN_OR_RETURN(RunFold fold, RunFold::Of(view, run, points_max));
//   if (!fold.empty()) FORESHOCK_RETURN_IF_ERROR(fold.Write(commit));
//
// It writes several batches, so that none holds the writer up for long. The last one removes the
// heads. Until then reads take the heads before the chunks, and both hold the same values. So a
// fold that ends in between (a crash, a full disk) has changed no answer, and is repeated from the
// start.
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
  // Writes a batch, which removes so many heads with so many points. An error ends the fold.
  using Commit =
      absl::FunctionRef<absl::Status(rocksdb::WriteBatch* batch, uint64_t heads, uint64_t points)>;

  // Takes the oldest heads of each attempt until they hold `points_max` points, at least one.
  // DataLoss names a corrupt head.
  static absl::StatusOr<RunFold> Of(const ReadView& view, uint32_t run, uint64_t points_max);

  bool empty() const { return attempts_.empty(); }
  // Whether the fold has all heads that the run has in the view.
  bool complete() const { return complete_; }

  // Calls `go_on` between two series; its error ends the fold. Consumes the fold. Memory: 32 bytes
  // per point, which includes the heads, and the batch.
  absl::Status Write(Commit commit, absl::FunctionRef<absl::Status()> go_on);

 private:
  struct Head {
    model::StepRow row{};
    std::string bytes{};
  };
  struct Attempt {
    uint32_t number = 0;
    uint64_t first_seq = 0;
    uint64_t last_seq = 0;
    uint64_t points = 0;
    std::vector<Head> heads{};  // in the order in which they were written
  };
  // One point of an attempt, without its series.
  struct Cell {
    uint32_t head = 0;
    uint32_t flags = 0;
    double value = 0;
  };
  // The points of an attempt by series. Those of series s are cells[starts[s]] up to, not
  // including, cells[starts[s + 1]], in the order in which they were written.
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
