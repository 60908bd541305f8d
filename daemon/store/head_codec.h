// Head rows. A head is a closed step as it was written; it stays until its points are in chunks.
//
//   std::string row = EncodeHead(step_row, points);
//   HeadReader head;
//   if (!head.Open(row)) ...;                       // corrupt
//   HeadPoint point;
//   while (head.Next(&point)) ...;
//   if (!head.whole()) ...;                         // corrupt
//
// Layout: docs/formats/store.md. The attempt is in the key. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/step.h"

namespace foreshock::store {

struct HeadPoint {
  uint32_t series = 0;
  double value = 0;
  uint32_t flags = 0;
  model::Storage storage = model::Storage::kF64;  // of an encoded point; not read back
};

// `points`: each series once, in rising order.
std::string EncodeHead(const model::StepRow& row, absl::Span<const HeadPoint> points);

class HeadReader {
 public:
  // Reads the step row. `bytes` must outlive the reader.
  bool Open(absl::string_view bytes);

  const model::StepRow& row() const { return row_; }  // attempt 0
  uint64_t points() const { return points_; }         // how many it has

  // Reads the next point; false at the end, and where the row is corrupt.
  bool Next(HeadPoint* point);
  // After the last Next: whether the row had all its points and nothing behind them.
  bool whole() const { return left_ == 0 && rest_.empty(); }

 private:
  model::StepRow row_;
  uint64_t points_ = 0;
  uint64_t left_ = 0;
  uint32_t series_ = 0;
  absl::string_view rest_;
};

}  // namespace foreshock::store
