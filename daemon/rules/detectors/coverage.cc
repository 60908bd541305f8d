#include "daemon/rules/detectors/coverage.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/coverage.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {
namespace {

// One subject for each announced kind in each layer, and one for the ranks.
class CoverageJudge final : public RuleJudge {
 public:
  CoverageJudge(const CoverageSpec& spec, std::shared_ptr<const Rule> rule)
      : RuleJudge(std::move(rule)), spec_(spec) {}

  void DescribeSource(v1::Alert* /*out*/) const override {}
  std::string Sentence() const override {
    std::map<std::string, std::vector<int32_t>> missing;  // layers by kind
    bool ranks = false;
    for (const Subject& subject : subjects()) {
      if (!subject.judge.firing()) continue;
      if (subject.series.unit == model::Unit::kNone) {
        ranks = true;
        continue;
      }
      std::vector<int32_t>& layers = missing[subject.series.unit_name];
      if (subject.series.layer >= 0) layers.push_back(subject.series.layer);
    }
    std::vector<std::string> parts;
    for (auto& [kind, layers] : missing) {
      std::sort(layers.begin(), layers.end());
      parts.push_back(layers.empty()
                          ? kind
                          : absl::StrCat(kind, layers.size() == 1 ? " of layer " : " of layers ",
                                         SomeText(layers)));
    }
    if (ranks) {
      parts.push_back(alert().ranks.empty() ? "ranks that take part in no step"
                                            : RanksText(alert().ranks));
    }
    if (parts.empty()) return alert().record.sentence();  // one that flaps goes on a while
    return absl::StrCat("announced and not come: ", absl::StrJoin(parts, "; "));
  }

 private:
  void JudgeStep(const StepView& view) override {
    const Coverage& coverage = view.coverage;
    FollowPlan(coverage);
    std::vector<bool> judged(subjects().size());
    for (size_t i = 0; i < coverage.tracks().size(); ++i) {
      const Coverage::Track& track = coverage.tracks()[i];
      const size_t subject = track_subjects_[i];
      judged[subject] = true;
      // An alert that was told goes on over a restart until the data come.
      const bool forgiven = !subjects()[subject].judge.firing();
      const int64_t missed = coverage.Missed(track, view.step, forgiven);
      PushVerdict(view, subject,
                  {.breach = missed >= spec_.missing_intervals,
                   .value = static_cast<double>(missed),
                   .base_step = coverage.LastSeen(track)});
    }
    const size_t ranks = track_subjects_.back();
    judged[ranks] = true;
    const bool ranks_missing = coverage.ranks_missed() >= spec_.missing_intervals;
    if (ranks_missing) ranks_now() = view.silent_ranks;
    PushVerdict(view, ranks,
                {.breach = ranks_missing,
                 .value = static_cast<double>(coverage.ranks_missed()),
                 .base_step = view.step});
    // What only the parent attempt had announced is no longer expected.
    for (size_t i = 0; i < subjects().size(); ++i) {
      if (!judged[i] && subjects()[i].judge.firing()) PushVerdict(view, i, {});
    }
  }

  void FollowPlan(const Coverage& coverage) {
    if (track_version_ == coverage.version()) return;
    track_version_ = coverage.version();
    track_subjects_.clear();
    for (const Coverage::Track& track : coverage.tracks()) {
      model::SeriesKey key;
      key.layer = track.layer;
      key.unit = model::Unit::kTensor;
      key.unit_name = track.kind;
      track_subjects_.push_back(FindOrAdd(key));
    }
    model::SeriesKey all_ranks;
    all_ranks.unit_name = "ranks";
    track_subjects_.push_back(FindOrAdd(all_ranks));
  }

  const CoverageSpec& spec_;
  std::vector<size_t> track_subjects_;     // of the plan's tracks, then of the ranks
  std::optional<uint64_t> track_version_;  // the plan they are of
};

}  // namespace

CoverageSpec CoverageSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  CoverageSpec spec;
  spec.missing_intervals = static_cast<int>(node.Get("missing_intervals").Int({1, 1000}, 3));
  return spec;
}

std::unique_ptr<RuleJudge> CoverageSpec::NewJudge(std::shared_ptr<const Rule> rule) const {
  return std::make_unique<CoverageJudge>(*this, std::move(rule));
}

}  // namespace foreshock::rules
