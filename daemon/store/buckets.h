// Sums up the points and parts of a series, in step order, as min, mean, max and last per bucket.
//
//   BucketBuilder buckets(1024, visit);
//   for (const Point& point : points) if (!buckets.Add(point)) return;
//   buckets.Finish();
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/store.h"

namespace foreshock::store {

// InvalidArgument unless `bucket_steps` is a power of two in [1, 2^62].
absl::Status CheckBucketSteps(int64_t bucket_steps);

// The first step of the bucket that `step` lies in.
inline int64_t BucketStart(int64_t step, int64_t bucket_steps) {
  return step & ~(bucket_steps - 1);
}

class BucketBuilder {
 public:
  using Visit = absl::FunctionRef<bool(const Bucket&)>;

  BucketBuilder(int64_t bucket_steps, Visit visit) : bucket_steps_(bucket_steps), visit_(visit) {}

  // Steps must rise. False: the visitor wants no more.
  bool Add(const model::Point& point);
  // Adds a part to the bucket of its first step.
  bool Add(uint32_t attempt, const ChunkSummary& part);
  // Hands out the last bucket.
  bool Finish();

 private:
  // Hands out the bucket that ends before `step`, and opens the one of `step`.
  bool Open(int64_t step);

  const int64_t bucket_steps_;
  const Visit visit_;
  Bucket bucket_;
  long double sum_ = 0;  // neither overflows nor loses digits where a double would
};

}  // namespace foreshock::store
