// Series, points and samples: what the daemon computes, stores and judges.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace foreshock::model {

// What a series of a layer (or run) is about. Values are stored: never renumber.
enum class Unit : uint8_t {
  kNone = 1,
  kHead = 2,
  kExpert = 3,
  kProjection = 4,
  kRank = 5,
  kTensor = 6,
};

inline constexpr int32_t kNoLayer = -1;

// Quality flags of a point, a bit set. Values are stored: never renumber.
enum QualityFlag : uint32_t {
  kFlagGrid = 1u << 0,        // the update lies under the number grid of the weights' precision
  kFlagGram32 = 1u << 1,      // exponent-1 value from float32 Grams
  kFlagSampled = 1u << 2,     // from a sample: a bound or an estimate
  kFlagFewTokens = 1u << 3,   // too few tokens for the quantity
  kFlagPartial = 1u << 4,     // shards were missing when the step closed
  kFlagLate = 1u << 5,        // a shard came after the step had closed
  kFlagRebaseline = 1u << 6,  // window, batch size or learning-rate phase changed here
  kFlagEval = 1u << 7,        // evaluation data
};

// Points with one of these feed no rule unless the rule asks for it.
inline constexpr uint32_t kFlagsNotJudged = kFlagGrid | kFlagGram32 | kFlagFewTokens | kFlagPartial;

// Identity of a series within a run.
struct SeriesKey {
  std::string indicator;     // catalogue id, "attn.delta2.entropy_ratio_l1"
  int32_t layer = kNoLayer;  // >= 0, or kNoLayer
  Unit unit = Unit::kNone;
  int64_t unit_id = 0;    // head, expert, projection or rank; 0 for kNone and kTensor
  std::string unit_name;  // tensor or scalar name for kTensor, else empty

  auto Tie() const { return std::tie(indicator, layer, unit, unit_id, unit_name); }
  friend bool operator==(const SeriesKey& a, const SeriesKey& b) { return a.Tie() == b.Tie(); }
  friend bool operator<(const SeriesKey& a, const SeriesKey& b) { return a.Tie() < b.Tie(); }
  template <typename H>
  friend H AbslHashValue(H h, const SeriesKey& key) {
    return H::combine(std::move(h), key.indicator, key.layer, key.unit, key.unit_id, key.unit_name);
  }
};

// One stored value of a series. `value` is finite: undefined and non-finite values are no points.
struct Point {
  uint32_t attempt = 0;
  int64_t step = 0;
  double value = 0;
  uint32_t flags = 0;  // QualityFlag bits

  friend bool operator==(const Point&, const Point&) = default;
};

// One value of a step that has just been computed.
struct Sample {
  SeriesKey series;
  double value = 0;
  uint32_t flags = 0;
};

}  // namespace foreshock::model
