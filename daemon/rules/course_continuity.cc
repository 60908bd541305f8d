// What a series shows after a resume against what it showed at the same steps before. It remembers
// its newest `samples` values; a resume sets those of later steps aside to compare with, each once.

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <vector>

#include "daemon/rules/course.h"

namespace foreshock {
namespace {

class Continuity final : public Course {
 public:
  Reading Push(const Detector& detector, const Sample& sample) override {
    Reading reading{.value = sample.value, .base_step = sample.base_step};
    ++attempt_samples_;
    const Length& within = detector.within;
    const bool past_end = within.in_samples ? attempt_samples_ > within.count
                                            : sample.step - resume_step_ > within.count;
    if (past_end) before_.clear();
    const bool nothing_left = before_.empty();
    const std::optional<double> before = TakeBefore(sample.step);
    Remember(detector, sample);
    if (nothing_left) {
      reading.judgement.clear = true;
      return reading;
    }
    if (!before.has_value()) return reading;
    reading.baseline = before;
    const double distance = std::abs(sample.value - *before);
    const double scale = std::abs(*before);
    reading.judgement.breach = distance > detector.limit * scale;
    reading.judgement.clear = distance <= detector.clear * scale;
    // Noise makes the same step differ, too.
    if (detector.min_z > 0 &&
        (!sample.baseline.has_value() || distance < detector.min_z * sample.baseline->spread)) {
      reading.judgement.breach = false;
    }
    return reading;
  }

  // What was before a declared change is expected to differ.
  void Rebase() override { before_.clear(); }
  void Resume(int64_t step, bool /*firing*/) override {
    const int64_t reached = past_.empty() ? step - 1 : past_.back().step;
    const auto ahead = [reached](const Value& value) { return value.step > reached; };
    std::vector<Value> before;
    while (!past_.empty() && past_.back().step >= step) {
      before.push_back(past_.back());
      past_.pop_back();
    }
    std::reverse(before.begin(), before.end());
    // Where the newest attempt did not get to, an older one's values still stand.
    std::copy_if(before_.begin(), before_.end(), std::back_inserter(before), ahead);
    before_.assign(before.begin(), before.end());
    interval_ = before_.empty() || past_.empty() ? 1 : before_.front().step - past_.back().step;
    resume_step_ = step;
    attempt_samples_ = 0;
  }
  void Overtaken(int64_t step, double value) override { before_.push_back({step, value}); }
  void Ended(bool /*released*/) override {}
  void Fields(Archive* archive) override {
    archive->Take(&past_, &before_, &interval_, &resume_step_, &attempt_samples_);
  }

 private:
  struct Value {
    int64_t step = 0;
    double value = 0;

    void Fields(Archive* archive) { archive->Take(&step, &value); }
  };

  // The value at `step`, or the one before it if it is less than a sampling interval old. It and
  // all older ones are taken away.
  std::optional<double> TakeBefore(int64_t step) {
    std::optional<Value> nearest;
    while (!before_.empty() && before_.front().step <= step) {
      nearest = before_.front();
      before_.pop_front();
      if (!before_.empty()) interval_ = before_.front().step - nearest->step;
    }
    if (!nearest.has_value() || step - nearest->step >= interval_) return std::nullopt;
    return nearest->value;
  }

  void Remember(const Detector& detector, const Sample& sample) {
    past_.push_back({sample.step, sample.value});
    if (past_.size() > static_cast<size_t>(detector.samples)) past_.pop_front();
  }

  std::deque<Value> past_;    // of the lineage, oldest first
  std::deque<Value> before_;  // of earlier attempts, at steps that this one has yet to reach
  int64_t interval_ = 1;      // between the newest two of them that were met
  int64_t resume_step_ = 0;
  int64_t attempt_samples_ = 0;
};

}  // namespace

std::unique_ptr<Course> NewContinuity() { return std::make_unique<Continuity>(); }

}  // namespace foreshock
