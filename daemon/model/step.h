// A step that has closed, as it travels from merge through finish to store, rules and exporter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/model/series.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::model {

// One row per (run, attempt, step), beside the points.
struct StepRow {
  uint32_t attempt = 0;
  int64_t step = 0;
  int64_t time_unix_ns = 0;  // newest report's wall clock; 0: unknown
  uint64_t tokens = 0;       // summed over data shards; 0: unknown
  uint32_t ranks = 0;        // that contributed
  bool skipped = false;      // the optimizer step was skipped
  bool partial = false;      // closed by lateness: ranks were missing
  bool late = false;         // re-merged after it had closed

  friend bool operator==(const StepRow&, const StepRow&) = default;
};

// Non-finite input, kept with where it came from.
struct Finding {
  enum class Kind : uint8_t { kNonFinite = 1, kReplicaMismatch = 2 };
  Kind kind = Kind::kNonFinite;
  std::string name;   // scalar or tensor name, or the payload: "qk_factors.q"
  uint32_t rank = 0;  // the sender
  int32_t layer = kNoLayer;
  int32_t head = -1;   // -1: none
  uint64_t count = 0;  // elements
};

// An indicator that could not be computed: counted, never stored as 0 or NaN.
struct Undefined {
  std::string indicator;  // id or family, "attn.delta2"
  std::string reason;     // "no_base", "zero_update", "unknown_shape", ...
  uint64_t count = 1;
};

struct ClosedStep {
  std::string run;
  StepRow row;
  std::vector<Sample> samples;
  std::vector<Undefined> undefined;
  std::vector<Finding> findings;
  std::vector<v1::Event> events;  // declared at this step
};

}  // namespace foreshock::model
