// Layers, and ranks, are each other's controls: each series against the median of the others at the
// same step. What all share cancels, what one does alone stands out.
//
//   Siblings siblings;
//   for (const auto& [series, value] : step) siblings.Add(series, value);
//   std::optional<double> ratio = siblings.Ratio(series, value);   // 1: like the others
//
// The siblings of a rank's series are those of other ranks in the same layer; of any other series
// those of the same unit in other layers.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "daemon/model/series.h"

namespace foreshock::rules {

// Thread-compatible.
class Siblings {
 public:
  // A series is compared only where it has so many siblings: with fewer, one that is ill would move
  // the median by half of its own deviation.
  static constexpr size_t kMin = 3;

  void Clear() { groups_.clear(); }
  // A value that is not above 0 has no ratio and is no sibling.
  void Add(const model::SeriesKey& series, double value);
  // The value over the median of its siblings; nullopt: fewer than kMin, or it was not added.
  std::optional<double> Ratio(const model::SeriesKey& series, double value);

 private:
  using Key = std::tuple<model::Unit, int64_t, std::string>;
  struct Group {
    std::vector<double> values;
    bool sorted = false;
  };

  static Key KeyOf(const model::SeriesKey& series);

  std::map<Key, Group> groups_;
};

}  // namespace foreshock::rules
