#include "daemon/store/head_codec.h"

#include <limits>

#include "absl/strings/string_view.h"
#include "daemon/store/bytes.h"
#include "daemon/store/row_codec.h"

namespace foreshock::store {

std::string EncodeHead(const model::StepRow& row, absl::Span<const HeadPoint> points) {
  constexpr size_t kStepBytesMax = 40;
  constexpr size_t kPointBytesTypical = 8;
  std::string bytes;
  bytes.reserve(kStepBytesMax + points.size() * kPointBytesTypical);
  PutFixed(static_cast<uint64_t>(row.step), 8, &bytes);
  AppendStep(row, &bytes);
  PutVarint(points.size(), &bytes);
  uint32_t before = 0;
  for (const HeadPoint& point : points) {
    PutVarint(point.series - before, &bytes);
    before = point.series;
    AppendPoint(point.storage, point.value, point.flags, &bytes);
  }
  return bytes;
}

bool HeadReader::Open(absl::string_view bytes) {
  rest_ = bytes;
  series_ = 0;
  row_ = {};
  uint64_t step = 0;
  if (!(TakeFixed(8, &rest_, &step) && TakeStep(&rest_, &row_) &&
        TakeVarint(rest_.size(), &rest_, &points_))) {
    return false;
  }
  row_.step = static_cast<int64_t>(step);
  left_ = points_;
  return true;
}

bool HeadReader::Next(HeadPoint* point) {
  if (left_ == 0) return false;
  uint64_t delta = 0;
  if (!TakeVarint(std::numeric_limits<uint32_t>::max() - series_, &rest_, &delta) || delta == 0 ||
      !TakePoint(&rest_, &point->value, &point->flags)) {
    return false;
  }
  series_ += static_cast<uint32_t>(delta);
  point->series = series_;
  --left_;
  return true;
}

}  // namespace foreshock::store
