// Points and parts of a series, in step order, as min, mean, max and last per bucket of steps.
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

// InvalidArgument unless it is a power of two in [1, 2^62].
absl::Status CheckBucketSteps(int64_t bucket_steps);

// The first step of the bucket that `step` lies in.
inline int64_t BucketStart(int64_t step, int64_t bucket_steps) {
  return step & ~(bucket_steps - 1);
}

class BucketBuilder {
 public:
  using Visit = absl::FunctionRef<bool(const Bucket&)>;

  BucketBuilder(int64_t bucket_steps, Visit visit) : bucket_steps_(bucket_steps), visit_(visit) {}

  // Each step after the one before. False: the visitor has had enough.
  bool Add(const Point& point);
  // A part; it goes into the bucket of its first step.
  bool Add(uint32_t attempt, const ChunkSummary& part);
  // Hands out the last bucket.
  bool Finish();

 private:
  // Hands out the bucket before the one of `step`.
  bool Open(int64_t step);

  const int64_t bucket_steps_;
  const Visit visit_;
  Bucket bucket_;
  long double sum_ = 0;  // of finite doubles: neither overflows nor loses what a double would
};

}  // namespace foreshock::store
