// How often a healthy quantity exceeds a limit that it has hardly or never reached: a model of the
// largest values of independent excursions, and how far it can be trusted.
//
//   const Excursions seen = FindExcursions(histories);
//   const TailFit fit(seen, 0.95);
//   if (fit.usable()) limit = fit.LimitBound(1e-6);      // one in a million steps
//
// The model (peaks over a threshold): excursions above the threshold come at a constant rate, and
// how far their peaks lie above it follows a generalised Pareto distribution, shape >= 0 (0:
// exponential; a lighter tail is not believed, so errors are towards too many alerts predicted).
// Bounds are the given quantile of 400 bootstrap resamples of number and peaks, with a fixed seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace foreshock::backtest {

// What a rule compared at a step, oriented so that larger is worse.
struct Worst {
  int64_t step = 0;
  float value = 0;
};

// One lineage of steps; the values of a run in step order.
using ExcursionSeries = std::vector<Worst>;

// How many stretches of values above `level` there are.
size_t CountExcursions(absl::Span<const ExcursionSeries> histories, double level);

struct Excursions {
  double threshold = 0;
  std::vector<double> peaks;  // the largest value of each excursion, > threshold
  double steps = 0;           // that were watched
};

// The excursions above the highest threshold that still shows 100 of them; above the one that shows
// most where none does.
Excursions FindExcursions(absl::Span<const ExcursionSeries> histories);

// Upper bound of the mean of a Poisson variable of which `count` were seen.
double PoissonUpper(size_t count, double confidence);

class TailFit {
 public:
  static constexpr size_t kPeaksMin = 10;

  TailFit(const Excursions& seen, double confidence);

  // Enough excursions to say anything.
  bool usable() const { return peaks_.size() >= kPeaksMin; }

  // Excursions a step above `limit` (>= the threshold; below it, the rate of the threshold), as
  // estimated and as the upper bound.
  double Rate(double limit) const;
  double RateBound(double limit) const;

  // The limit at which the upper bound of the rate is `rate`; never under the threshold.
  double LimitBound(double rate) const;

  double threshold() const { return threshold_; }

 private:
  struct Model {
    double rate = 0;   // of excursions above the threshold, a step
    double scale = 0;  // >= 0; 0: all peaks are at the threshold
    double shape = 0;  // >= 0
    double Rate(double excess) const;
    double Excess(double rate) const;
  };
  static Model Fit(std::vector<double> excesses, double steps);

  double threshold_ = 0;
  double confidence_ = 0;
  std::vector<double> peaks_;
  Model model_;
  std::vector<Model> resampled_;
};

}  // namespace foreshock::backtest
