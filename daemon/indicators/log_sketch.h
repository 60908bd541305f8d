// A mergeable sketch of non-negative values: counts in logarithmic bins of ratio 1.04, so that any
// quantile is known within 2 %. Bins are sparse and add.
#pragma once

#include <cstdint>
#include <map>

namespace foreshock::indicators {

class LogSketch {
 public:
  // value >= 0, finite. Zeros and values under 1e-300 have a bin of their own.
  void Add(double value, uint64_t count = 1) { AddBin(BinOf(value), count); }
  void AddBin(int32_t bin, uint64_t count) {
    bins_[bin] += count;
    total_ += count;
  }
  // The value at rank ceil(q * total), q in (0, 1]; relative error <= 2 %. 0 when empty.
  double Quantile(double q) const;
  const std::map<int32_t, uint64_t>& bins() const { return bins_; }
  uint64_t total() const { return total_; }

  static int32_t BinOf(double value);

 private:
  std::map<int32_t, uint64_t> bins_;
  uint64_t total_ = 0;
};

}  // namespace foreshock::indicators
