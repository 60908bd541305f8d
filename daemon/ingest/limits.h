// Every limit of ingestion: the settable ones, and the fixed ones that keep a payload's cost near
// its size (a small message must not ask for a huge matrix).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::ingest {

struct IngestLimits {
  size_t message_bytes_max = 64u << 20;  // one PushRequest; the server's receive limit
  uint32_t summaries_per_report_max = 4096;
  uint32_t scalars_per_stream_max = 1024;  // interned names
  uint32_t tensors_per_stream_max = 16384;
  uint32_t streams_max = 16384;  // streams and PushOnce calls in progress
  uint32_t streams_per_run_max = 8192;
  // Of each client: who shows one token, or without tokens has one address. 0: no limit.
  uint32_t client_streams_max = 0;
  uint32_t client_runs_max = 0;  // different runs within a day
  uint64_t client_bytes_per_second_max = 0;
  size_t bytes_in_flight_max = 512u << 20;  // received, not yet taken by the sink
  uint32_t rejections_queued_max = 4096;    // of one stream whose sender does not read its acks
};

// What HelloAck tells the sender.
v1::Limits ToProto(const IngestLimits& limits);

// Fixed by the contract or by what a computation on the payload costs.
inline constexpr uint32_t kWorldSizeMax = 1u << 20;
inline constexpr uint32_t kLayersMax = 1u << 16;
inline constexpr uint32_t kHeadsMax = 1u << 16;
inline constexpr uint32_t kHeadDimMax = 1024;  // Grams are 2r x 2r
inline constexpr uint32_t kHiddenSizeMax = 1u << 20;
inline constexpr uint32_t kLowRankMax = 8192;
inline constexpr uint32_t kExpertsMax = 4096;     // Grams are experts x experts
inline constexpr uint32_t kTokensMax = 1u << 20;  // rows of one RouterGates
inline constexpr uint32_t kBlockRowsMax = 1024;   // attention block; its Gram is rows x rows
inline constexpr uint32_t kBlockColumnsMax = 1u << 20;
inline constexpr uint32_t kPolicyPairsMax = 4096;
inline constexpr uint32_t kWindowStepsMax = 1u << 20;
inline constexpr int64_t kStepMax = int64_t{1} << 53;      // exact in a double
inline constexpr uint64_t kSeqGapMax = uint64_t{1} << 40;  // lost between two reports of a stream
inline constexpr int64_t kCountMax = int64_t{1} << 40;  // 2^20 ranks of it add up without overflow
inline constexpr size_t kPlanEntriesMax = 1024;
inline constexpr size_t kLabelsMax = 32;
inline constexpr size_t kLabelBytesMax = 4096;

}  // namespace foreshock::ingest
