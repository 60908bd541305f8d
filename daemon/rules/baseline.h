// What a value is compared with: a robust centre and spread of accepted samples of the same series.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace foreshock::rules {

class Band;

struct BaselineSpec {
  enum class Kind : uint8_t {
    kNone,       // the detector needs none
    kTrailing,   // median of the last `samples` accepted, lagged
    kAnchored,   // median of the first `samples` accepted since the last re-base
    kFixed,      // `value`
    kPlateau,    // the learning rate at the end of its warm-up
    kReference,  // `band`, at the step or token that is judged
  };
  Kind kind = Kind::kNone;
  int samples = 30;
  int lag = 5;          // the newest sample used is the lag-th newest accepted one
  int min_samples = 8;  // fewer give no baseline
  double value = 0;
  std::shared_ptr<const Band> band = nullptr;
  double spread_floor = 1e-3;  // spread is at least this share of |median|
};

struct Baseline {
  double median = 0;
  double spread = 0;  // max(1.4826 * MAD, floor)

  template <typename A>
  void serialize(A& archive) {
    archive(median, spread);
  }
};

// The accepted samples of one series. Accept: O(log n) compares and a move of <= n doubles; Get:
// O(n) at worst, n = spec.samples. Thread-compatible. Refers to its spec, which outlives it.
class SampleWindow {
 public:
  explicit SampleWindow(const BaselineSpec& spec) : spec_(&spec) {}

  void Accept(int64_t step, double value);
  // nullopt while there are too few samples. Only for kTrailing and kAnchored.
  std::optional<Baseline> Get() const;
  // Forgets samples of steps >= `step`. An anchor that rests on one of them is completed again.
  void DropFrom(int64_t step);
  void Clear();

  template <typename A>
  void serialize(A& archive) {
    archive(accepted_, anchor_);
    if (A::is_loading::value) Sort();
  }

 private:
  struct Accepted {
    int64_t step = 0;
    double value = 0;

    template <typename A>
    void serialize(A& archive) {
      archive(step, value);
    }
  };
  void Sort();
  // The window ends behind so many samples of accepted_.
  size_t Last() const;

  const BaselineSpec* spec_;
  std::vector<Accepted> accepted_;  // oldest first; only the newest ones that can still matter
  std::vector<double> sorted_;      // the values of the window
  std::optional<Baseline> anchor_;  // kAnchored, when its samples are complete
};

// Median and spread of sorted values; n >= 1.
Baseline RobustBaseline(const std::vector<double>& sorted, double spread_floor);

}  // namespace foreshock::rules
