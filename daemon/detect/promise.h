// Holds back a page until the evidence is worth one: at most one false page in a promised number of
// blocks on average, however the blocks depend on each other and on other series.
//
//   Promise promise(100'000 / block_steps);
//   for (bool held : blocks) if (promise.Push(held)) Page();     // whether the condition held in
//   it
//
// Assumes only that in health a block holds with a probability of at most p0 given all that came
// before; p0 is an upper bound (one in forty at a time) from the blocks so far that were well, and
// at least 3/n. The statistic is an e-detector: M grows by (1 + lambda (x/p0 - 1)) from M + 1,
// averaged over four lambdas; in health its mean is at most the number of blocks, so a level of A
// is reached once in A blocks at most (Shin, Ramdas and Rinaldo, E-detectors, 2022). Cost: O(1) a
// block.
#pragma once

#include <array>
#include <cstdint>

namespace foreshock::detect {

// Thread-compatible.
class Promise {
 public:
  explicit Promise(double blocks_per_false_page) : level_(blocks_per_false_page) {}

  // True from the block at which the evidence reaches the level until a block that does not hold.
  bool Push(bool held);
  // In blocks; the level is the promised number.
  double evidence() const;
  // The bound on how often a block holds in health, in [0, 1].
  double p0() const;
  void Reset() { *this = Promise(level_, 0, 0); }

  template <typename A>
  void serialize(A& archive) {
    archive(sums_, blocks_, held_, reached_);
  }

 private:
  Promise(double level, int64_t blocks, int64_t held)
      : level_(level), blocks_(blocks), held_(held) {}

  double level_;
  std::array<double, 4> sums_ = {};
  int64_t blocks_ = 0;  // while no page was due
  int64_t held_ = 0;    // of them
  bool reached_ = false;
};

}  // namespace foreshock::detect
