// The spread of a sequence of deviations about their own mean, as it was lately and as it was over
// a longer past: the larger of the two counts.
//
//   Noise noise;
//   for (double deviation : deviations) noise.Add(deviation);
//   const bool far = x > 3 * noise.Widened();
//
// The long memory grows with the sequence (it reaches back over about the newest fifth of it), so
// that a wild beginning is forgotten. A single outlier counts as at most kOutlierSpreads spreads.
// Cost: O(1) a value.
#pragma once

#include <cstdint>

namespace foreshock::detect {

// Thread-compatible.
class Noise {
 public:
  void Add(double deviation);

  // One standard deviation, in the unit of the deviations; 0 before the second one.
  double Spread() const;
  // The same, wider while only few deviations are known (by 6/n of itself after n), and wider where
  // they come in runs: by their autocorrelation, at most to its double.
  double Widened() const;
  int64_t count() const { return count_; }

  template <typename A>
  void serialize(A& archive) {
    archive(mean_, recent_, lasting_, product_, last_, count_);
  }

 private:
  double mean_ = 0;
  double recent_ = 0;   // mean square about mean_, of about the newest 32
  double lasting_ = 0;  // of about the newest fifth
  double product_ = 0;  // mean of neighbours' products about mean_, as lasting_
  double last_ = 0;     // the newest, about mean_
  int64_t count_ = 0;
};

}  // namespace foreshock::detect
