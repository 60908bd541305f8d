// What is looked up of the steps of a lineage: recent values of an indicator, and the sum of
// tokens. A lineage is the steps of an attempt and, before its resume, those of the attempts
// before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace foreshock::rules {

// The recent values of a run-wide indicator, to divide others by.
class Divisor {
 public:
  void Push(int64_t step, double value) {
    values_.push_back({step, value});
    if (values_.size() > kStepsMax) values_.pop_front();
  }
  // Mean over the steps in (base, newest]; nullopt without a value in it.
  std::optional<double> MeanSince(int64_t base) const {
    double sum = 0;
    int count = 0;
    for (auto it = values_.rbegin(); it != values_.rend() && it->first > base; ++it) {
      sum += it->second;
      ++count;
    }
    if (count == 0) return std::nullopt;
    return sum / count;
  }
  void DropFrom(int64_t step) {
    while (!values_.empty() && values_.back().first >= step) values_.pop_back();
  }
  template <typename A>
  void serialize(A& archive) {
    archive(values_);
  }

 private:
  static constexpr size_t kStepsMax = 4096;
  std::deque<std::pair<int64_t, double>> values_;
};

// The tokens of a lineage, summed. Remembers enough to go back by 65 536 steps.
class TokenCount {
 public:
  void Push(int64_t step, double tokens) {
    past_.push_back({step, (past_.empty() ? 0 : past_.back().second) + tokens});
    if (past_.size() > kStepsMax) past_.pop_front();
  }
  void DropFrom(int64_t step) {
    while (!past_.empty() && past_.back().first >= step) past_.pop_back();
  }
  std::optional<double> total() const {
    if (past_.empty() || past_.back().second <= 0) return std::nullopt;
    return past_.back().second;
  }
  template <typename A>
  void serialize(A& archive) {
    archive(past_);
  }

 private:
  static constexpr size_t kStepsMax = 65'536;
  std::deque<std::pair<int64_t, double>> past_;
};

}  // namespace foreshock::rules
