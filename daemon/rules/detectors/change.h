// What the detectors of daemon/detect share as detectors of the rule language: level, best_so_far,
// drift, spike, frozen. They find by themselves what the series was before, so rules give them no
// baseline, and they judge from the first rows on.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "daemon/base/archive.h"
#include "daemon/detect/change.h"
#include "daemon/rules/detectors/spec.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {

// `size` is a share of what the series was: 0.05 is five percent, 1 is a doubling.
struct ChangeSpec : SampleSpec {
  static constexpr bool kJudgedFromTheStart = true;

  detect::Limits limits;
  // The series is positive. One of which more than a twentieth of the values is not is not judged:
  // shares of it mean nothing.
  bool positive = true;
  // The new level counts as healthy after so many rows: for what is context and no fault, such as a
  // loss that falls. 0: never.
  int accept_after = 0;

  Side side() const { return limits.side == detect::Side::kUp ? Side::kAbove : Side::kBelow; }
};

struct ChangeDefaults {
  double size_min = 0;
  double noises = 0;  // 0: the detector has no limit in noises
  bool logarithm = false;
};

// Reads `rise` or `fall` (one of them), `noises`, `values: positive | signed`, `accept_after`.
void ParseChange(const yaml::YamlNode& node, const ChangeDefaults& defaults, ChangeSpec* spec);

// Judges a series by a detector of daemon/detect.
template <typename Finder>
class ChangeDetector final : public SampleDetector {
 public:
  ChangeDetector(Finder finder, bool positive, int accept_after = 0)
      : finder_(std::move(finder)), positive_(positive), accept_after_(accept_after) {}

  Reading Push(const Sample& sample) override {
    if (lasting_ == 0) {
      ++seen_;
      if (sample.value <= 0) ++not_positive_;
    }
    const detect::Change change = finder_.Push(sample.step, sample.value);
    lasting_ = change.lasts ? lasting_ + 1 : 0;
    if (accept_after_ > 0 && lasting_ >= accept_after_) finder_.Reset();
    Reading reading{.value = sample.value, .base_step = sample.base_step};
    const bool judged = change.known && !(positive_ && not_positive_ * kPositiveOf > seen_);
    reading.judgement = {.breach = judged && change.lasts, .clear = !judged || !change.lasts};
    if (!judged) return reading;
    reading.value = change.now;
    reading.baseline = change.before;
    reading.limit = change.limit;
    reading.noise = change.noise;
    if (change.lasts) reading.base_step = change.before_step;
    if (change.before != 0) reading.judgement.measured = change.now / change.before;
    return reading;
  }

  void Rebase() override { finder_.Reset(); }
  void Resume(int64_t step, bool /*firing*/) override { finder_.Resume(step); }
  void HistoryFields(base::Archive* archive) override {
    archive->Take(&finder_, &seen_, &not_positive_, &lasting_);
  }

 private:
  static constexpr int64_t kPositiveOf = 20;

  Finder finder_;
  const bool positive_;
  const int accept_after_;
  int64_t seen_ = 0;
  int64_t not_positive_ = 0;
  int64_t lasting_ = 0;  // rows in a row
};

}  // namespace foreshock::rules
