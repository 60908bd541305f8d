// What the pipeline counts about itself. The exporter renders it; nothing here is ever reset.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace foreshock {

// Upper bounds of the commit latency histogram, seconds; one more bucket is without bound.
inline constexpr std::array<double, 8> kCommitLatencyBounds = {0.0001, 0.0003, 0.001, 0.003,
                                                               0.01,   0.03,   0.1,   1.0};

// Written by the pipeline, read by anyone. Thread-safe.
struct PipelineStats {
  std::atomic<uint64_t> reports_committed{0};
  std::atomic<uint64_t> reports_duplicate{0};
  std::atomic<uint64_t> reports_recomputed{0};  // checked, not used
  std::atomic<uint64_t> reports_late{0};        // merged into a closed step
  std::atomic<uint64_t> reports_too_late{0};    // for a step that is no longer kept
  std::atomic<uint64_t> steps_closed{0};
  std::atomic<uint64_t> steps_partial{0};
  std::atomic<uint64_t> points_written{0};
  std::atomic<uint64_t> commits{0};
  std::atomic<uint64_t> commit_failures{0};
  std::atomic<uint64_t> commit_nanoseconds{0};
  std::array<std::atomic<uint64_t>, kCommitLatencyBounds.size() + 1> commit_latency{};
  std::atomic<uint64_t> sync_failures{0};
  std::atomic<uint64_t> queue_bytes{0};
  std::atomic<uint64_t> queue_refusals{0};
  std::atomic<uint64_t> open_steps{0};
  std::atomic<uint64_t> open_bytes{0};
  std::atomic<uint64_t> silent_ranks{0};
  std::atomic<uint64_t> streams{0};
  std::atomic<bool> store_writable{true};

  void ObserveCommit(absl::Duration latency) {
    const double seconds = absl::ToDoubleSeconds(latency);
    size_t bucket = 0;
    while (bucket < kCommitLatencyBounds.size() && seconds > kCommitLatencyBounds[bucket]) ++bucket;
    ++commit_latency[bucket];
    ++commits;
    commit_nanoseconds += static_cast<uint64_t>(absl::ToInt64Nanoseconds(latency));
  }
};

}  // namespace foreshock
