#include "daemon/rules/detectors/level_shift.h"

#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/base/order_statistics.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {
namespace {

class LevelShift final : public SampleDetector {
 public:
  explicit LevelShift(const LevelShiftSpec& spec) : SampleDetector(spec.log), spec_(spec) {}

  Reading Push(const Sample& sample) override {
    const size_t n = static_cast<size_t>(spec_.samples);
    kept_.push_back({sample.step, sample.base_step, sample.value});
    if (kept_.size() > 2 * n) kept_.pop_front();  // twice, for resumes
    Reading reading{.value = Shown(sample.value), .base_step = sample.base_step};
    if (kept_.size() < n || !sample.baseline.has_value()) return reading;
    std::vector<double> values;
    for (size_t i = kept_.size() - n; i < kept_.size(); ++i) values.push_back(kept_[i].value);
    const double median = base::Median(std::move(values));
    reading.judgement = Compare(spec_.limits, InSpreads(median, *sample.baseline));
    reading.value = Shown(median);
    reading.baseline = Shown(sample.baseline->median);
    reading.base_step = kept_[kept_.size() - n].base_step;
    return reading;
  }

  void Rebase() override { kept_.clear(); }
  void Resume(int64_t step, bool /*firing*/) override {
    while (!kept_.empty() && kept_.back().step >= step) kept_.pop_back();
  }
  void HistoryFields(base::Archive* archive) override { archive->Take(&kept_); }

 private:
  struct Kept {
    int64_t step = 0;
    int64_t base_step = 0;
    double value = 0;

    template <typename A>
    void serialize(A& archive) {
      archive(step, base_step, value);
    }
  };

  const LevelShiftSpec& spec_;
  std::deque<Kept> kept_;  // oldest first
};

}  // namespace

LevelShiftSpec LevelShiftSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  LevelShiftSpec spec;
  spec.limits = ParseSpreads(node, /*hysteresis=*/true);
  spec.log = node.Get("log").Bool(false);
  spec.samples = static_cast<int>(node.Get("samples").Int({2, kSeriesSamplesMax}, 20));
  return spec;
}

std::unique_ptr<SampleDetector> LevelShiftSpec::NewDetector() const {
  return std::make_unique<LevelShift>(*this);
}

std::string LevelShiftSpec::Measured(std::string input) const {
  return absl::StrCat("the median of ", samples, " samples of ", input);
}

}  // namespace foreshock::rules
