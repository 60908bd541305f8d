// How a run differs from another one, the baseline: which indicators, since when, and by how much
// against the baseline's own noise.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Comparison comparison, CompareRuns(a, b, CompareOptions()));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/backtest/recorded_run.h"

namespace foreshock::backtest {

struct CompareOptions {
  bool by_tokens = false;    // points at the same number of tokens so far, not at the same step
  double spreads = 6;        // a series differs where it is further away than so many spreads ...
  size_t in_a_row = 10;      // ... in so many points, one after the other
  size_t points_least = 20;  // common to both; fewer are not judged
};

// One series of both runs. `x` is a step, or tokens.
struct SeriesDifference {
  model::SeriesKey key{};
  Curve baseline{};  // at the points compared, smoothed by a running median of 5
  Curve run{};
  double spread = 0;  // of the baseline: robust deviation from its running median of 31
  std::optional<int64_t>
      since{};            // where the first stretch of the other kind begins; unset: the same
  double share = 0;       // of the points from there on that are away
  double difference = 0;  // median from there on, run minus baseline; else over all points
  std::optional<double> size{};  // the difference in spreads; unset where the baseline is constant
};

struct IndicatorDifference {
  std::string indicator{};
  size_t series = 0;  // judged
  size_t differing = 0;
  std::optional<int64_t> since{};  // the earliest
  size_t worst = 0;                // place in Comparison::series of the one that is furthest away
};

struct Comparison {
  std::vector<SeriesDifference> series;         // judged
  std::vector<IndicatorDifference> indicators;  // those that differ first, the largest first
  size_t too_short = 0;                         // series of both with too few common points
  std::vector<std::string> only_baseline;       // indicators that the other run does not have
  std::vector<std::string> only_run;
};

// The spread is the noise from point to point, not how far two good runs with other seeds lie
// apart: that is only known from two good runs. Errors: InvalidArgument where the runs have no
// series in common, too few points in all of them, or no tokens.
absl::StatusOr<Comparison> CompareRuns(const RecordedRun& baseline, const RecordedRun& run,
                                       const CompareOptions& options);

}  // namespace foreshock::backtest
