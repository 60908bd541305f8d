#include "daemon/rules/detectors/continuity.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {
namespace {

class Continuity final : public SampleDetector {
 public:
  explicit Continuity(const ContinuitySpec& spec) : spec_(spec) {}

  Reading Push(const Sample& sample) override {
    Reading reading{.value = sample.value, .base_step = sample.base_step};
    ++attempt_samples_;
    const Length& within = spec_.within;
    const bool past_end = within.in_samples ? attempt_samples_ > within.count
                                            : sample.step - resume_step_ > within.count;
    if (past_end) before_.clear();
    const bool nothing_left = before_.empty();
    const std::optional<double> before = TakeBefore(sample.step);
    past_.push_back({sample.step, sample.value});
    if (past_.size() > static_cast<size_t>(spec_.samples)) past_.pop_front();
    if (nothing_left) {
      reading.judgement.clear = true;
      return reading;
    }
    if (!before.has_value()) return reading;
    reading.baseline = before;
    const double distance = std::abs(sample.value - *before);
    const double scale = std::abs(*before);
    reading.judgement.breach = distance > spec_.outside * scale;
    reading.judgement.clear = distance <= spec_.clear * scale;
    // Noise makes the same step differ, too.
    if (spec_.min_z > 0 &&
        (!sample.baseline.has_value() || distance < spec_.min_z * sample.baseline->spread)) {
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
  void HistoryFields(base::Archive* archive) override {
    archive->Take(&past_, &before_, &interval_, &resume_step_, &attempt_samples_);
  }

 private:
  struct Value {
    int64_t step = 0;
    double value = 0;

    template <typename A>
    void serialize(A& archive) {
      archive(step, value);
    }
  };

  // The value at `step`, or the one before it if it is less than a sampling interval old. Takes it
  // and all older ones away.
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

  const ContinuitySpec& spec_;
  std::deque<Value> past_;    // of the lineage, oldest first
  std::deque<Value> before_;  // of earlier attempts, at steps that this one has yet to reach
  int64_t interval_ = 1;      // between the newest two of them that were met
  int64_t resume_step_ = 0;
  int64_t attempt_samples_ = 0;
};

}  // namespace

ContinuitySpec ContinuitySpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  ContinuitySpec spec;
  spec.outside = node.Require("outside").Double({0, kAnyNumber}, 0.05);
  const yaml::YamlNode clear = node.Get("clear");
  spec.clear = clear.Double({0, kAnyNumber}, spec.outside);
  if (spec.clear > spec.outside) {
    clear.Error(absl::StrCat("`clear` is ", spec.clear, " but the limit is ", spec.outside,
                             "; it must lie on the healthy side, at most ", spec.outside));
  }
  spec.min_z = node.Get("min_z").Double({0, 1000}, 3);
  const yaml::YamlNode within = node.Get("within");
  spec.within = ParseLength(within, {.count = 50});
  if (spec.within.count < 1) within.Error("`within` is 0; at least one step or sample");
  spec.samples = static_cast<int>(node.Get("samples").Int({2, kSeriesSamplesMax}, 1000));
  return spec;
}

std::unique_ptr<SampleDetector> ContinuitySpec::NewDetector() const {
  return std::make_unique<Continuity>(*this);
}

}  // namespace foreshock::rules
