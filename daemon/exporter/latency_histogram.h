// Counts durations in fixed buckets from 0.5 ms to 10 s. Lock-free, thread-safe.
//
//   LatencyHistogram commits;
//   commits.Observe(absl::Now() - started);
//   stats.commit_latency = commits.Read();
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace foreshock::exporter {

class LatencyHistogram {
 public:
  static constexpr std::array<double, 14> kUpperBounds_s = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

  struct Values {
    std::array<uint64_t, kUpperBounds_s.size() + 1> counts{};  // the last one: longer
    double sum_s = 0;
  };

  void Observe(absl::Duration duration) {
    const double seconds = absl::ToDoubleSeconds(duration);
    size_t bucket = 0;
    while (bucket < kUpperBounds_s.size() && seconds > kUpperBounds_s[bucket]) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(absl::ToInt64Nanoseconds(duration), std::memory_order_relaxed);
  }

  // Not one instant: an observation that is being made may be in the counts and not in the sum.
  Values Read() const {
    Values values;
    for (size_t i = 0; i < counts_.size(); ++i) {
      values.counts[i] = counts_[i].load(std::memory_order_relaxed);
    }
    values.sum_s = static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9;
    return values;
  }

 private:
  std::array<std::atomic<uint64_t>, kUpperBounds_s.size() + 1> counts_{};
  std::atomic<int64_t> sum_ns_{0};
};

}  // namespace foreshock::exporter
