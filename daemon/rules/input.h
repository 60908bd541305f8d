// What a rule looks at: indicators, how they become one value, which values count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/model/series.h"

namespace foreshock::rules {

struct Input {
  enum class Aggregate : uint8_t { kEach, kMean, kMin, kMax, kP10 };
  enum class Combine : uint8_t { kNone, kNorm, kSum, kMean, kMin, kMax };
  enum class Scope : uint8_t { kAny, kRun, kRank };
  std::vector<std::string> indicators;     // several only with `combine`
  Scope scope = Scope::kAny;               // kRank: series of one rank; kRun: all others
  Combine combine = Combine::kNone;        // of run-wide values of the same step
  Aggregate aggregate = Aggregate::kEach;  // over the units of a layer
  // The value is divided by the mean of this run-wide indicator over the steps since the series'
  // previous sample (over the snapshot window for attn.delta*); empty: not divided.
  std::string divide_by;
  // Then it is divided by the median of its siblings at the same step (siblings.h).
  bool siblings = false;
  int smooth = 1;  // running median of so many values
  uint32_t flags_not_judged = model::kFlagsNotJudged;
};

// As rule files, bands and gauges write it, in the order of the enumeration.
inline constexpr absl::string_view kAggregateNames[] = {"each", "mean", "min", "max", "p10"};

inline absl::string_view AggregateName(Input::Aggregate aggregate) {
  return kAggregateNames[static_cast<size_t>(aggregate)];
}

}  // namespace foreshock::rules
