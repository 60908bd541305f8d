// Integer predictors of a column. Next() predicts the next value, Add() takes the real one.
// Arithmetic wraps, so that encoder and decoder agree on any input.
#pragma once

#include <cstdint>

namespace foreshock::store {

constexpr int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
constexpr int64_t WrapSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// A running mean that moves by 2^-kShift of each error; with kShift 0 it is the last value. Suits
// noise around a level.
template <int kShift>
class LevelPredictor {
 public:
  int64_t Next() const { return scaled_ >> kShift; }
  void Add(int64_t value) { scaled_ = WrapAdd(scaled_, WrapSub(value, Next())); }

 private:
  int64_t scaled_ = 0;  // the mean times 2^kShift
};

// The last value plus a running mean of the differences. Suits clocks and smooth curves.
template <int kShift>
class SlopePredictor {
 public:
  int64_t Next() const { return WrapAdd(last_, scaled_ >> kShift); }
  void Add(int64_t value) {
    scaled_ = WrapAdd(scaled_, WrapSub(WrapSub(value, last_), scaled_ >> kShift));
    last_ = value;
  }

 private:
  int64_t last_ = 0;
  int64_t scaled_ = 0;  // the mean difference times 2^kShift
};

// Calls `use` with a new predictor of this number, if there is one. Numbers are stored and never
// change.
inline constexpr uint64_t kPredictors = 6;
template <typename Use>
void WithPredictor(uint64_t number, Use&& use) {
  switch (number) {
    case 0:
      return use(LevelPredictor<0>());
    case 1:
      return use(LevelPredictor<1>());
    case 2:
      return use(LevelPredictor<2>());
    case 3:
      return use(LevelPredictor<4>());
    case 4:
      return use(SlopePredictor<0>());
    case 5:
      return use(SlopePredictor<3>());
    default:
      return;
  }
}

}  // namespace foreshock::store
