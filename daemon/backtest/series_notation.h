// The notation for the values of a series in a test of rules, that of promtool with two more words:
//
//   0.8          one value                  0.8x40        0.8 and 40 more of it
//   0.8-0.01x20  0.8, 0.79, ... 0.6         _  _x5        a missing sample; five of them
//   NaN  NaNx3   not finite                 (1 2)x9       1 2 and nine times more
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace foreshock::backtest {

// nullopt: no sample. NaN or Inf: a finding in place of one.
using SeriesValue = std::optional<double>;

inline constexpr size_t kSeriesValuesMax = 1'000'000;

// InvalidArgument, naming the word that cannot be read and what is allowed.
absl::StatusOr<std::vector<SeriesValue>> ParseSeriesValues(absl::string_view text);

}  // namespace foreshock::backtest
