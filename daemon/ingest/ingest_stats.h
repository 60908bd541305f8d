// What ingestion counts about itself. Written from many threads, read by the exporter.
//
//   stats.Refuse(Refusal::kDraining);
//   const IngestCounts counts = stats.Snapshot();
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace foreshock::ingest {

// Why a stream or call was refused or ended early. The order is that of kRefusalNames.
enum class Refusal : uint8_t {
  kDraining,  // the daemon is going down
  kStreams,   // limits of IngestLimits
  kStreamsPerRun,
  kBadHello,
  kProtocol,   // messages out of order, seq that does not grow
  kSink,       // the sink refused the Hello
  kOverload,   // no room for a report within submit_wait_max
  kSinkEnded,  // the sink ended the stream
  kAccess,     // no token, or one that does not allow it
  kClientStreams,
  kClientRuns,
  kClientBytes,
  kCount
};

inline constexpr size_t kRefusals = static_cast<size_t>(Refusal::kCount);
inline constexpr std::array<absl::string_view, kRefusals> kRefusalNames = {
    "draining", "streams",    "streams_per_run", "bad_hello",      "protocol",    "sink",
    "overload", "sink_ended", "access",          "client_streams", "client_runs", "client_bytes"};

inline constexpr size_t kStatusCodes = 17;  // absl::StatusCode, 0..16

struct IngestCounts {
  uint64_t streams_open = 0;      // a gauge; PushOnce calls in progress included
  uint64_t streams_total = 0;     // admitted
  uint64_t reports = 0;           // received
  uint64_t reports_rejected = 0;  // refused as a whole, by an Ack's Rejection
  uint64_t summaries = 0;         // received
  uint64_t bytes = 0;             // of received messages, serialised
  uint64_t bytes_in_flight = 0;   // a gauge: received, not yet taken by the sink
  uint64_t duplicates = 0;        // reports that had been committed before
  uint64_t submit_retries = 0;    // times a report had to wait for room
  std::array<uint64_t, kStatusCodes> summaries_rejected{};  // by status code
  std::array<uint64_t, kRefusals> refused{};                // by Refusal
};

class IngestStats {
 public:
  using Counter = std::atomic<uint64_t>;

  static void Add(Counter& counter, uint64_t n = 1) {
    counter.fetch_add(n, std::memory_order_relaxed);
  }
  static void Subtract(Counter& counter, uint64_t n = 1) {
    counter.fetch_sub(n, std::memory_order_relaxed);
  }
  void Refuse(Refusal reason) { Add(refused[static_cast<size_t>(reason)]); }

  IngestCounts Snapshot() const;

  Counter streams_open{0};
  Counter streams_total{0};
  Counter reports{0};
  Counter reports_rejected{0};
  Counter summaries{0};
  Counter bytes{0};
  Counter bytes_in_flight{0};
  Counter duplicates{0};
  Counter submit_retries{0};
  std::array<Counter, kStatusCodes> summaries_rejected{};
  std::array<Counter, kRefusals> refused{};
};

}  // namespace foreshock::ingest
