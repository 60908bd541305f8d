// What the pipeline counts about itself. The exporter renders it; nothing here is ever reset.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/exporter/latency_histogram.h"

namespace foreshock::pipeline {

// Written by the pipeline, read by anyone. Thread-safe.
struct PipelineStats {
  std::atomic<uint64_t> reports_committed{0};
  std::atomic<uint64_t> reports_duplicate{0};
  std::atomic<uint64_t> reports_recomputed{0};   // checked, not used
  std::atomic<uint64_t> reports_late{0};         // merged into a closed step
  std::atomic<uint64_t> reports_too_late{0};     // for a step that is no longer kept
  std::atomic<uint64_t> reports_too_far{0};      // for a step implausibly far ahead of the run
  std::atomic<uint64_t> reports_no_room{0};      // over a limit of open statistics
  std::atomic<uint64_t> reports_clock_ahead{0};  // taken without their time
  std::atomic<uint64_t> steps_closed{0};
  std::atomic<uint64_t> steps_partial{0};
  std::atomic<uint64_t> points_written{0};
  std::atomic<uint64_t> rules_evaluated{0};  // rule and step
  std::atomic<uint64_t> commits{0};
  std::atomic<uint64_t> commit_failures{0};
  exporter::LatencyHistogram commit_latency;  // from the first report of a batch taken up
  std::atomic<uint64_t> acks_sent{0};
  std::atomic<uint64_t> sync_failures{0};
  std::atomic<uint64_t> snapshot_bytes{0};  // weight snapshots of all ranks
  std::atomic<uint64_t> queue_bytes{0};
  std::atomic<uint64_t> queue_refusals{0};
  std::atomic<uint64_t> open_steps{0};
  std::atomic<uint64_t> open_bytes{0};
  std::atomic<uint64_t> silent_ranks{0};
  std::atomic<uint64_t> streams{0};
  std::atomic<bool> store_writable{true};
};

}  // namespace foreshock::pipeline
