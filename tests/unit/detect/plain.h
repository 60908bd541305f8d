// The detectors of daemon/detect, written as their headers describe them: with the whole series at
// hand, without rings, caches and running sums. The real ones must say the same of any series.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/detect/change.h"
#include "daemon/detect/ladder.h"

namespace foreshock::detect::plain {

inline double Sign(Side side) { return side == Side::kUp ? 1 : -1; }

// The upper of the middle two.
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

inline std::vector<double> Last(const std::vector<double>& values, size_t count) {
  return {values.end() - static_cast<ptrdiff_t>(std::min(count, values.size())), values.end()};
}

inline double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

inline Change Exponentials(Change change) {
  change.before = std::exp(change.before);
  change.now = std::exp(change.now);
  change.limit = std::exp(change.limit);
  return change;
}

class Noise {
 public:
  void Add(double deviation) {
    const double n = static_cast<double>(++count_);
    double off = deviation - mean_;
    if (count_ > 4) off = std::min(std::max(off, -6 * Spread()), 6 * Spread());
    const auto move = [](double* average, double weight, double value) {
      *average = (1 - weight) * *average + weight * value;
    };
    mean_ += (n < 32 ? 1 / n : 1.0 / 32) * off;
    move(&recent_, n < 63 ? 2 / (n + 1) : 1.0 / 32, off * off);
    const double lasting = n < 4092 ? 4 / (n + 4) : 1.0 / 1024;
    move(&lasting_, lasting, off * off);
    move(&product_, lasting, off * last_);
    last_ = off;
  }
  double Spread() const { return std::sqrt(std::max(recent_, lasting_)); }
  double Widened() const {
    if (count_ == 0) return 0;
    const double correlation = lasting_ == 0 ? 0 : product_ / lasting_;
    return Spread() * (1 + std::min(std::max(correlation, 0.0), 1.0)) *
           (1 + 6 / static_cast<double>(count_));
  }
  int64_t count() const { return count_; }

 private:
  double mean_ = 0, recent_ = 0, lasting_ = 0, product_ = 0, last_ = 0;
  int64_t count_ = 0;
};

// Where a series stands, and how far from it is far.
class LocalLevel {
 public:
  explicit LocalLevel(const Limits& limits) : limits_(limits) {}

  bool known() const { return values_.size() >= 5 && noise_.count() >= 5; }
  double Reference() const {
    const double wide = Median(Last(values_, 16)), narrow = Median(Last(values_, 5));
    return limits_.side == Side::kUp ? std::min(wide, narrow) : std::max(wide, narrow);
  }
  double Limit(double reference) const {
    return std::max(SizeOf(limits_, reference), limits_.noises * noise_.Widened());
  }
  double spread() const { return noise_.Spread(); }
  void Admit(int64_t step, double value) {
    if (values_.size() >= 5) noise_.Add(value - Reference());
    values_.push_back(value);
    steps_.push_back(step);
    if (values_.size() > 16) DropFront();
  }
  void Replace(const std::vector<double>& values, int64_t step) {
    values_ = Last(values, 16);
    steps_ = std::vector<int64_t>(values_.size(), step);
  }
  void DropFrom(int64_t step) {
    while (!steps_.empty() && steps_.back() >= step) {
      steps_.pop_back();
      values_.pop_back();
    }
  }

 private:
  void DropFront() {
    values_.erase(values_.begin());
    steps_.erase(steps_.begin());
  }

  Limits limits_;
  std::vector<double> values_;
  std::vector<int64_t> steps_;
  Noise noise_;
};

class Shift {
 public:
  explicit Shift(const Limits& limits) : limits_(limits), level_(limits) {}

  const Change& change() const { return change_; }
  void Push(const Rung& rung) {
    seen_.push_back(rung.value);
    change_.now = rung.value;
    if (change_.lasts) {
      const double limit = std::abs(change_.limit - change_.before);
      if (seen_.size() < 3 || Over(Median(Last(seen_, 3))) >= 0.7 * limit) return;
      change_.lasts = false;
      level_.Replace(seen_, rung.last_step);
      healthy_ = rung.last_step;
      return;
    }
    if (suspects_.empty()) change_.before = level_.Reference();
    const double limit = level_.Limit(change_.before);
    change_.limit = change_.before + Sign(limits_.side) * limit;
    change_.noise = level_.spread();
    change_.known = level_.known();
    if (!change_.known || Over(rung.value) <= limit) {
      for (const Rung& suspect : suspects_) level_.Admit(suspect.last_step, suspect.value);
      suspects_.clear();
      level_.Admit(rung.last_step, rung.value);
      healthy_ = rung.last_step;
      return;
    }
    if (suspects_.empty()) change_.before_step = std::min(healthy_, rung.first_step - 1);
    suspects_.push_back(rung);
    in_limits_.resize(suspects_.size() - 1);
    in_limits_.push_back(std::min(Over(rung.value) / limit, 2.0));
    Tell();
  }
  void Resume(int64_t step) {
    level_.DropFrom(step);
    suspects_.clear();
    seen_.clear();
    healthy_ = std::min(healthy_, step - 1);
    if (change_.before_step >= step) change_.lasts = false;
  }

 private:
  double Over(double value) const { return Sign(limits_.side) * (value - change_.before); }
  void Tell() {
    double sum = 0, peak = 0;
    for (const double distance : in_limits_) sum += distance;
    for (const Rung& suspect : suspects_) peak = std::max(peak, Over(suspect.value));
    if (suspects_.size() < 3 || sum < 4) return;
    double lowest = peak;
    for (size_t i = suspects_.size() - 3; i < suspects_.size(); ++i) {
      lowest = std::min(lowest, Over(suspects_[i].value));
    }
    if (lowest < 0.4 * peak && suspects_.size() < 8) return;  // it heals
    change_.lasts = true;
    suspects_.clear();
  }

  Limits limits_;
  LocalLevel level_;
  std::vector<Rung> suspects_;
  std::vector<double> in_limits_;  // the suspects' distances
  std::vector<double> seen_;       // since the attempt began
  Change change_;
  int64_t healthy_ = 0;  // the last step that is part of the level
};

class Ladder {
 public:
  template <typename Take>
  void Push(int scale, const Rung& rung, const Take& take) {
    if (scale == 6) return;
    take(scale, rung);
    std::vector<Rung>& four = open_[static_cast<size_t>(scale)];
    four.push_back(rung);
    if (four.size() < 4) return;
    std::vector<double> values;
    for (const Rung& one : four) values.push_back(one.value);
    std::sort(values.begin(), values.end());
    const Rung median{four[0].first_step, four[3].last_step, (values[1] + values[2]) / 2};
    four.clear();
    Push(scale + 1, median, take);
  }
  void Reset() { open_ = {}; }

 private:
  std::array<std::vector<Rung>, 6> open_;
};

class Level {
 public:
  explicit Level(const Limits& limits) : limits_(limits), scales_(6, Shift(limits)) {}

  Change Push(int64_t step, double value) {
    if (limits_.logarithm) value = std::log(value);
    if (std::isfinite(value)) {
      ladder_.Push(0, {step, step, value}, [this](int scale, const Rung& rung) {
        scales_[static_cast<size_t>(scale)].Push(rung);
      });
    }
    Change change = scales_[0].change();
    for (int scale = 5; scale >= 0; --scale) {
      const Change& other = scales_[static_cast<size_t>(scale)].change();
      if (other.lasts) change = other;
    }
    change.now = scales_[0].change().now;
    return limits_.logarithm ? Exponentials(change) : change;
  }
  void Reset() { *this = Level(limits_); }
  void Resume(int64_t step) {
    ladder_.Reset();
    for (Shift& scale : scales_) scale.Resume(step);
  }

 private:
  Limits limits_;
  Ladder ladder_;
  std::vector<Shift> scales_;
};

class Spike {
 public:
  explicit Spike(const Limits& limits) : limits_(limits), level_(limits) {}

  Change Push(int64_t step, double value) {
    if (limits_.logarithm) value = std::log(value);
    if (!std::isfinite(value)) return change_;
    const double before = level_.Reference(), limit = level_.Limit(before);
    change_.known = level_.known();
    if (!change_.lasts) change_.before_step = step - 1;
    change_.before = before;
    change_.now = value;
    change_.limit = before + Sign(limits_.side) * limit;
    change_.noise = level_.spread();
    change_.lasts = change_.known && Sign(limits_.side) * (value - before) > limit;
    if (!change_.lasts) {
      beyond_.clear();
      level_.Admit(step, value);
    } else {
      beyond_.push_back(value);
      if (beyond_.size() == 16) {
        level_.Replace(beyond_, step);
        beyond_.clear();
        change_.lasts = false;
      }
    }
    return limits_.logarithm ? Exponentials(change_) : change_;
  }
  void Reset() { *this = Spike(limits_); }
  void Resume(int64_t step) {
    level_.DropFrom(step);
    beyond_.clear();
    change_.lasts = false;
  }

 private:
  Limits limits_;
  LocalLevel level_;
  std::vector<double> beyond_;
  Change change_;
};

class Drift {
 public:
  explicit Drift(const Limits& limits) : limits_(limits) {}

  Change Push(int64_t step, double value) {
    if (limits_.logarithm) value = std::log(value);
    if (std::isfinite(value)) {
      ladder_.Push(0, {step, step, value}, [this](int scale, const Rung& rung) {
        if (scale >= 1 && scale <= 4) PushScale(rung, &scales_[static_cast<size_t>(scale) - 1]);
      });
    }
    Change change = scales_[0].change;
    for (int scale = 3; scale >= 0; --scale) {
      const Change& other = scales_[static_cast<size_t>(scale)].change;
      if (other.lasts) change = other;
    }
    return limits_.logarithm ? Exponentials(change) : change;
  }
  void Reset() { *this = Drift(limits_); }
  void Resume(int64_t step) {
    ladder_.Reset();
    for (Scale& scale : scales_) {
      while (!scale.values.empty() && scale.values.back().last_step >= step) {
        scale.values.pop_back();
      }
      if (scale.change.before_step >= step) scale.change.lasts = false;
    }
  }

 private:
  struct Scale {
    std::vector<Rung> values;   // ten at most
    std::vector<double> rises;  // all
    int64_t count = 0;
    Change change;
  };

  void PushScale(const Rung& rung, Scale* scale) {
    const double sign = Sign(limits_.side);
    Change& change = scale->change;
    scale->values.push_back(rung);
    if (scale->values.size() == 11) scale->values.erase(scale->values.begin());
    ++scale->count;
    change.now = rung.value;
    if (change.lasts) {
      const double half = SizeOf(limits_, change.before) / 2;
      change.lasts = sign * (rung.value - change.before) >= half;
      if (!change.lasts) scale->values.clear();
      return;
    }
    if (scale->values.size() < 10) return;
    const auto at = [&](size_t i) { return sign * scale->values[i].value; };
    scale->rises.push_back((at(9) + at(8)) / 2 - (at(0) + at(1)) / 2);
    double largest = 0;  // of those that have no value in common with the newest
    for (size_t i = 0; i + 8 < scale->rises.size(); ++i) {
      largest = std::max(largest, scale->rises[i]);
    }
    const double before = std::max(at(0), at(1));
    change.before = sign * before;
    change.before_step = scale->values[1].last_step;
    const double limit = std::max(SizeOf(limits_, change.before), 1.5 * largest);
    change.limit = sign * (before + limit);
    change.known = scale->count >= 18;
    change.lasts = change.known && std::min(at(8), at(9)) > before + limit;
  }

  Limits limits_;
  Ladder ladder_;
  std::array<Scale, 4> scales_;
};

class BestSoFar {
 public:
  explicit BestSoFar(const Limits& limits) : limits_(limits) {}

  Change Push(int64_t step, double value) {
    ++rows_;
    values_.push_back(value);
    for (size_t i = 0; i < 4; ++i) {
      const size_t length = kBlocks[i];
      if (values_.size() < 2 * length || rows_ % length != 0) continue;
      const std::vector<double> both = Last(values_, 2 * length);
      const auto middle = both.begin() + static_cast<ptrdiff_t>(length);
      const double difference = Mean({middle, both.end()}) - Mean({both.begin(), middle});
      noises_[i].Add(difference * std::sqrt(static_cast<double>(length) / 2));
    }
    for (Past& past : pasts_) {
      if (values_.size() < past.length || rows_ % (past.length / 4) != 0) continue;
      double spread = 0;
      for (size_t i = 0; i < 4; ++i) {
        if (4 * kBlocks[i] <= past.length) spread = std::max(spread, noises_[i].Spread());
      }
      Look(step, spread / std::sqrt(static_cast<double>(past.length)), &past);
    }
    for (const Past& past : pasts_) {
      if (past.change.lasts) return past.change;
    }
    return pasts_[0].change;
  }
  void Reset() { *this = BestSoFar(limits_); }
  void Resume(int64_t step) {
    values_.clear();
    for (Past& past : pasts_) {
      while (!past.bests.empty() && past.bests.back().first >= step) past.bests.pop_back();
      if (past.bests.empty() || past.change.before_step >= step) past.change.lasts = false;
      past.change.before_step = past.bests.empty() ? 0 : past.bests.back().first;
    }
  }

 private:
  static constexpr std::array<size_t, 4> kBlocks = {1, 4, 16, 64};
  struct Past {
    explicit Past(size_t rows) : length(rows) {}
    size_t length;
    std::vector<std::pair<int64_t, double>> bests;
    double peak = 0, healed = 0;  // the largest excess now, and of those that came back
    int worse = 0;
    Change change;
  };

  void Look(int64_t step, double spread, Past* past) {
    const double mean = Mean(Last(values_, past->length));
    const double newest = Mean(Last(values_, past->length / 4));
    Change& change = past->change;
    change.now = mean;
    change.noise = spread;
    if (past->bests.empty()) {
      past->bests.emplace_back(step, mean);
      change.before_step = step;
      change.before = mean;
      return;
    }
    change.known = true;
    change.before = past->bests.back().second;
    const auto excess = [&](double value) { return Sign(limits_.side) * (value - change.before); };
    past->peak = std::max(past->peak, excess(mean));
    if (excess(mean) < past->peak / 2) {
      past->healed = std::max(past->healed, past->peak);
      past->peak = std::max(excess(mean), 0.0);
    }
    if (change.lasts && excess(mean) >= std::abs(change.limit - change.before) / 2) return;
    const double limit =
        std::max(std::max(limits_.size * std::abs(change.before), limits_.noises * spread),
                 1.5 * past->healed);
    change.limit = change.before + Sign(limits_.side) * limit;
    past->worse = excess(mean) > limit && excess(newest) > limit / 2 ? past->worse + 1 : 0;
    change.lasts = past->worse >= 3;
    if (change.lasts || excess(mean) >= 0) return;
    change.before_step = step;
    past->bests.emplace_back(step, mean);
  }

  Limits limits_;
  size_t rows_ = 0;
  std::vector<double> values_;  // since the attempt began
  std::array<Noise, 4> noises_;
  std::array<Past, 3> pasts_ = {Past(16), Past(64), Past(256)};
};

class Frozen {
 public:
  explicit Frozen(int64_t rows, std::optional<double> at = std::nullopt) : rows_(rows), at_(at) {}

  Change Push(int64_t step, double value) {
    const bool same = !runs_.empty() && runs_.back().value == value;
    if (!same) runs_.push_back({value, step, 0});
    ++runs_.back().length;
    if (at_.has_value() && value != *at_) distances_.push_back(std::abs(value - *at_));
    lasts_ = lasts_ ? same : Abnormal();
    return {.known = Before() >= rows_,
            .lasts = lasts_,
            .before_step = runs_.back().step - (at_.has_value() ? 1 : 0),
            .before = value,
            .now = value};
  }
  void Reset() { *this = Frozen(rows_, at_); }
  // The newest run begins again with its newest row; the others of it were rows like any.
  void Resume(int64_t) {
    lost_ += runs_.back().length - 1;
    runs_.back().length = 1;
  }

 private:
  struct Run {
    double value;
    int64_t step;  // of its first row
    int64_t length;
  };

  // Rows before the newest run.
  int64_t Before() const {
    int64_t rows = lost_;
    for (size_t i = 0; i + 1 < runs_.size(); ++i) rows += runs_[i].length;
    return rows;
  }
  bool Abnormal() const {
    const int64_t before = Before(), changes = static_cast<int64_t>(runs_.size());
    if (runs_.back().length < rows_ || before < rows_ || 2 * changes <= before) return false;
    if (!at_.has_value()) return true;
    int64_t at_before = 0;
    for (size_t i = 0; i + 1 < runs_.size(); ++i) {
      if (runs_[i].value == *at_) at_before += runs_[i].length;
    }
    if (runs_.back().value != *at_ || 20 * at_before > before || distances_.empty()) return false;
    const std::vector<double> newest = Last(distances_, 16);
    const double median = Median(newest);
    const size_t firsts = std::min<size_t>(distances_.size(), 16);
    const double first =
        Mean({distances_.begin(), distances_.begin() + static_cast<ptrdiff_t>(firsts)});
    return *std::min_element(newest.begin(), newest.end()) >= median / 4 && median >= first / 20;
  }

  int64_t rows_;
  std::optional<double> at_;
  std::vector<Run> runs_;
  std::vector<double> distances_;  // of all rows that are not at `at`
  int64_t lost_ = 0;               // rows of runs that an attempt cut
  bool lasts_ = false;
};

// The bound is the upper end of Wilson's interval of two spreads: the larger p with
// (held / n - p)^2 = 4 p (1 - p) / n. The evidence is the e-detector's definition: over all blocks
// at which a change may have begun the product of what each block since says.
class Promise {
 public:
  explicit Promise(double level) : level_(level) {}

  double p0() const {
    const double n = blocks_ + 30.0, share = held_ / n;
    const double a = 1 + 4 / n, b = 2 * share + 4 / n, c = share * share;
    return std::min(1.0, std::max(3 / n, (b + std::sqrt(b * b - 4 * a * c)) / (2 * a)));
  }
  double evidence() const {
    double sum = 0;
    for (const double lambda : {0.02, 0.1, 0.3, 0.7}) {
      for (size_t begin = 0; begin < since_.size(); ++begin) {
        double product = 1;
        for (size_t i = begin; i < since_.size(); ++i) {
          product *= 1 + lambda * (since_[i].first / since_[i].second - 1);
        }
        sum += product / 4;
      }
    }
    return sum;
  }
  bool Push(bool held) {
    if (reached_) {
      if (!held) since_.clear();
      reached_ = held;
      return reached_;
    }
    since_.emplace_back(held ? 1 : 0, p0());
    ++blocks_;
    if (held) ++held_;
    reached_ = evidence() >= level_;
    return reached_;
  }
  void Reset() { *this = Promise(level_); }

 private:
  double level_;
  int blocks_ = 0, held_ = 0;
  std::vector<std::pair<double, double>> since_;  // held, and the bound at that block
  bool reached_ = false;
};

}  // namespace foreshock::detect::plain
