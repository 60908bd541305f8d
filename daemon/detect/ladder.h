// One series at several cadences: step k of the ladder has the median of every four values of the
// step below, so 1, 4, 16, 64, ... rows a value. What looks for a change at each step sees a jump
// in a few rows and a slow change in many, whatever the logging interval.
//
//   Ladder ladder;
//   ladder.Push(step, value, [&](int scale, const Rung& rung) { judges[scale].Push(rung); });
//
// Cost: amortised 4/3 calls a row. Memory: 4 values a scale.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace foreshock::detect {

inline constexpr int kScales = 6;  // up to 1 024 rows a value
inline constexpr int kFold = 4;

// A value of one scale, and the training steps of its first and last row.
struct Rung {
  int64_t first_step = 0;
  int64_t last_step = 0;
  double value = 0;

  template <typename A>
  void serialize(A& archive) {
    archive(first_step, last_step, value);
  }
};

// Thread-compatible.
class Ladder {
 public:
  template <typename Take>
  void Push(int64_t step, double value, const Take& take) {
    Rung rung{step, step, value};
    for (int scale = 0; scale < kScales; ++scale) {
      take(scale, rung);
      Open& open = open_[static_cast<size_t>(scale)];
      open.rungs[open.count++] = rung;
      if (open.count < kFold) return;
      open.count = 0;
      rung = Folded(open.rungs);
    }
  }

  // What is not folded yet is forgotten.
  void Reset() {
    for (Open& open : open_) open.count = 0;
  }

  template <typename A>
  void serialize(A& archive) {
    archive(open_);
  }

 private:
  using Rungs = std::array<Rung, kFold>;
  struct Open {
    Rungs rungs;
    uint8_t count = 0;

    template <typename A>
    void serialize(A& archive) {
      archive(rungs, count);
      count = std::min<uint8_t>(count, kFold - 1);
    }
  };

  static Rung Folded(const Rungs& rungs) {
    std::array<double, kFold> values;
    for (size_t i = 0; i < kFold; ++i) values[i] = rungs[i].value;
    std::sort(values.begin(), values.end());
    return {rungs.front().first_step, rungs.back().last_step, (values[1] + values[2]) / 2};
  }

  std::array<Open, kScales> open_;
};

}  // namespace foreshock::detect
