#include "daemon/store/buckets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace foreshock::store {

absl::Status CheckBucketSteps(int64_t bucket_steps) {
  if (bucket_steps >= 1 && (bucket_steps & (bucket_steps - 1)) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("store: buckets of ", bucket_steps,
                                                 " steps: a power of two in [1, 2^62] is allowed"));
}

bool BucketBuilder::Open(int64_t step) {
  const int64_t start = BucketStart(step, bucket_steps_);
  if (bucket_.count > 0 && bucket_.first_step == start) return true;
  if (!Finish()) return false;
  bucket_.first_step = start;
  return true;
}

bool BucketBuilder::Add(const model::Point& point) {
  return Add(point.attempt, {1, point.step, point.step, point.value, point.value, point.value,
                             point.value, point.flags});
}

bool BucketBuilder::Add(uint32_t attempt, const ChunkSummary& part) {
  if (!Open(part.first_step)) return false;
  bucket_.min = bucket_.count == 0 ? part.min : std::min(bucket_.min, part.min);
  bucket_.max = bucket_.count == 0 ? part.max : std::max(bucket_.max, part.max);
  bucket_.count += part.count;
  sum_ += part.sum;
  bucket_.last = part.last;
  bucket_.last_step = part.last_step;
  bucket_.attempt = attempt;
  bucket_.flags |= part.flags;
  return true;
}

bool BucketBuilder::Finish() {
  if (bucket_.count == 0) return true;
  const auto mean = static_cast<double>(sum_ / static_cast<long double>(bucket_.count));
  bucket_.mean = std::clamp(mean, bucket_.min, bucket_.max);
  const bool more = visit_(bucket_);
  bucket_ = {};
  sum_ = 0;
  return more;
}

}  // namespace foreshock::store
