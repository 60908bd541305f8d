#include "daemon/rules/detectors/spike_budget.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/archive.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {
namespace {

class SpikeBudget final : public SampleDetector {
 public:
  explicit SpikeBudget(const SpikeBudgetSpec& spec) : SampleDetector(spec.log), spec_(spec) {}

  Reading Push(const Sample& sample) override {
    const size_t n = static_cast<size_t>(spec_.samples);
    Reading reading{.base_step = sample.base_step};
    if (sample.baseline.has_value()) {
      const bool spike = Compare(spec_.spike, InSpreads(sample.value, *sample.baseline)).breach;
      judged_.push_back({sample.step, sample.base_step, spike});
      if (judged_.size() > 2 * n) judged_.pop_front();  // twice, for resumes
      reading.admit = !spike;
    }
    int64_t spikes = 0;
    const Judged* first = nullptr;
    for (size_t i = judged_.size() - std::min(n, judged_.size()); i < judged_.size(); ++i) {
      if (judged_[i].spike && spikes++ == 0) first = &judged_[i];
    }
    reading.value = static_cast<double>(spikes) / static_cast<double>(n);
    if (!sample.baseline.has_value()) return reading;
    reading.judgement = Compare(spec_.share, reading.value);
    if (reading.judgement.breach) reading.base_step = first->base_step;
    return reading;
  }

  void Rebase() override { judged_.clear(); }
  void Resume(int64_t step, bool /*firing*/) override {
    while (!judged_.empty() && judged_.back().step >= step) judged_.pop_back();
  }
  void HistoryFields(base::Archive* archive) override { archive->Take(&judged_); }

 private:
  struct Judged {
    int64_t step = 0;
    int64_t base_step = 0;
    bool spike = false;

    template <typename A>
    void serialize(A& archive) {
      archive(step, base_step, spike);
    }
  };

  const SpikeBudgetSpec& spec_;
  std::deque<Judged> judged_;  // oldest first
};

// "3%", from 0 to less than 100.
double ParsePercent(const yaml::YamlNode& node, double fallback) {
  if (!node.present()) return fallback;
  const std::string text = node.String();
  double percent = 0;
  if (absl::EndsWith(text, "%") &&
      absl::SimpleAtod(absl::string_view(text).substr(0, text.size() - 1), &percent) &&
      percent >= 0 && percent < 100) {
    return percent / 100;
  }
  if (node.is_scalar()) {
    node.Error(absl::StrCat("the share ", text,
                            " is not allowed; a percentage from 0% to less than 100%, such as 3%"));
  }
  return fallback;
}

}  // namespace

SpikeBudgetSpec SpikeBudgetSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  SpikeBudgetSpec spec;
  const yaml::YamlNode spike = node.Require("spike");
  if (spike.present()) {
    spec.spike = ParseSpreads(spike, /*hysteresis=*/false);
    spec.log = spike.Get("log").Bool(false);
  }

  const yaml::YamlNode share = node.Require("share");
  spec.share.limit = ParsePercent(share, 0.03);
  const yaml::YamlNode clear = node.Get("clear");
  spec.share.clear = ParsePercent(clear, spec.share.limit);
  if (spec.share.clear > spec.share.limit) {
    clear.Error(absl::StrFormat("`clear` is %g%% but the share is %g%%; at most that is allowed",
                                100 * spec.share.clear, 100 * spec.share.limit));
  }
  const yaml::YamlNode of = node.Get("of");
  const Length length = ParseLength(of, {.count = 100, .in_samples = true});
  if (!length.in_samples || length.count < 2 || length.count > kSeriesSamplesMax) {
    of.Error(absl::StrCat("`of` is a length in samples, from 2 to ", kSeriesSamplesMax,
                          ", for example \"100 samples\""));
    return spec;
  }
  spec.samples = static_cast<int>(length.count);
  if (spec.share.limit > 0 && spec.share.limit * spec.samples < 1) {
    const int needed = static_cast<int>(std::ceil(1 / spec.share.limit));
    (of.present() ? of : share)
        .Error(
            absl::StrFormat("%g%% of %d samples is less than one sample; at least %d samples, or "
                            "a larger share",
                            100 * spec.share.limit, spec.samples, needed));
  }
  return spec;
}

std::unique_ptr<SampleDetector> SpikeBudgetSpec::NewDetector() const {
  return std::make_unique<SpikeBudget>(*this);
}

std::string SpikeBudgetSpec::Measured(std::string input) const {
  return absl::StrCat("the share of spikes in ", samples, " samples of ", input);
}

}  // namespace foreshock::rules
