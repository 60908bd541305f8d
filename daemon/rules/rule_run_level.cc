// Rules on the run itself: steps that no longer close, announced data that does not come, attempts
// that begin again and again.

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock {
namespace {

constexpr size_t kShown = 8;  // layers, ranks; the alert's fields have all of them

template <typename T>
std::string Some(const std::vector<T>& items) {
  const size_t shown = std::min(items.size(), kShown);
  std::string text =
      absl::StrJoin(items.begin(), items.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (shown < items.size()) absl::StrAppend(&text, " and ", items.size() - shown, " more");
  return text;
}

std::string RanksText(const std::vector<uint32_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", Some(ranks));
}

SeriesKey WholeRun() { return SeriesKey(); }

SeriesKey AllRanks() {
  SeriesKey key;
  key.unit = Unit::kNone;
  key.unit_name = "ranks";
  return key;
}

// How long a run may wait for its next step, in seconds.
double WaitLimit(const Detector& detector, const Progress& progress) {
  if (!progress.step_closed()) return detector.first_step_seconds;
  return std::max(detector.at_least_seconds,
                  detector.intervals * progress.median_step_seconds().value_or(0));
}

}  // namespace

void RuleJudge::PushRunVerdict(const Rule& rule, const StepView& view, size_t subject,
                               const RunVerdict& verdict) {
  judged_ = true;
  const Transition transition = subjects_[subject].judge.PushVerdict(
      rule, view.step, verdict.base_step, verdict.breach, verdict.value, verdict.baseline);
  if (transition != Transition::kNone) changed_ = true;
}

void RuleJudge::JudgeRunLevel(const Rule& rule, const StepView& view) {
  finding_ranks_.clear();
  if (rule.detector.kind == Detector::Kind::kCoverage) {
    JudgeCoverage(rule, view);
    return;
  }
  const size_t subject = FindOrAdd(rule, WholeRun());
  RunVerdict verdict;  // kHang: a step has closed
  if (rule.detector.kind == Detector::Kind::kRestarts) {
    verdict.value = view.progress.RestartsWithin(rule.detector.window_steps);
    verdict.breach = verdict.value > rule.detector.limit;
    verdict.base_step = view.step;
  }
  PushRunVerdict(rule, view, subject, verdict);
}

bool RuleJudge::Tick(const Rule& rule, const StepView& view, bool live,
                     const std::function<std::vector<uint32_t>()>& hindmost) {
  judged_ = false;
  changed_ = false;
  finding_ranks_.clear();
  const size_t subject = FindOrAdd(rule, WholeRun());
  const bool firing = subjects_[subject].judge.firing();
  RunVerdict verdict{.base_step = view.step};
  if (rule.detector.kind == Detector::Kind::kHang) {
    verdict.value = view.progress.waiting_seconds();
    verdict.baseline = view.progress.median_step_seconds();
    verdict.breach = live && verdict.value >= WaitLimit(rule.detector, view.progress);
    // While the run lives only a step ends it.
    if (firing ? live : !verdict.breach) return false;
    if (verdict.breach) finding_ranks_ = hindmost();
  } else {
    verdict.value = view.progress.RestartsWithin(rule.detector.window_steps);
    verdict.breach = verdict.value > rule.detector.limit;
    if (firing || !verdict.breach) return false;
  }
  PushRunVerdict(rule, view, subject, verdict);
  return changed_ ? UpdateAlert(rule, view) : false;
}

void RuleJudge::JudgeCoverage(const Rule& rule, const StepView& view) {
  const Coverage& coverage = view.coverage;
  if (track_version_ != coverage.version()) {
    track_version_ = coverage.version();
    track_subjects_.clear();
    for (const Coverage::Track& track : coverage.tracks()) {
      SeriesKey key;
      key.layer = track.layer;
      key.unit = Unit::kTensor;
      key.unit_name = track.kind;
      track_subjects_.push_back(FindOrAdd(rule, key));
    }
    track_subjects_.push_back(FindOrAdd(rule, AllRanks()));
  }
  std::vector<bool> judged(subjects_.size());
  for (size_t i = 0; i < coverage.tracks().size(); ++i) {
    const Coverage::Track& track = coverage.tracks()[i];
    const size_t subject = track_subjects_[i];
    judged[subject] = true;
    // An alert that was told goes on over a restart until the data come.
    const bool forgiven = !subjects_[subject].judge.firing();
    const int64_t missed = coverage.Missed(track, view.step, forgiven);
    PushRunVerdict(rule, view, subject,
                   {.breach = missed >= rule.detector.intervals,
                    .value = static_cast<double>(missed),
                    .base_step = coverage.LastSeen(track)});
  }
  const size_t ranks = track_subjects_.back();
  judged[ranks] = true;
  const bool ranks_missing = coverage.ranks_missed() >= rule.detector.intervals;
  if (ranks_missing) finding_ranks_ = view.silent_ranks;
  PushRunVerdict(rule, view, ranks,
                 {.breach = ranks_missing,
                  .value = static_cast<double>(coverage.ranks_missed()),
                  .base_step = view.step});
  // What only the parent attempt had announced is expected no more.
  for (size_t i = 0; i < subjects_.size(); ++i) {
    if (!judged[i] && subjects_[i].judge.firing()) PushRunVerdict(rule, view, i, {});
  }
}

std::string RuleJudge::RunSentence(const Rule& rule) const {
  if (!IsRunLevel(rule.detector)) return "";
  const double value = worst_ < subjects_.size() ? subjects_[worst_].judge.value() : 0;
  if (rule.detector.kind == Detector::Kind::kRestarts) {
    return absl::StrCat(NumberText(value), " attempts began anew while the run progressed by ",
                        rule.detector.window_steps, " steps");
  }
  if (rule.detector.kind == Detector::Kind::kHang) {
    std::string text = absl::StrCat("no step closed for ", NumberText(value), " s");
    const std::optional<double> usual =
        worst_ < subjects_.size() ? subjects_[worst_].judge.baseline() : std::nullopt;
    if (usual.has_value()) {
      absl::StrAppend(&text, ", where one usually takes ", NumberText(*usual), " s");
    }
    if (!alert_.ranks.empty()) {
      absl::StrAppend(&text, "; farthest back: ", RanksText(alert_.ranks));
    }
    return text;
  }
  std::map<std::string, std::vector<int32_t>> missing;  // layers by kind
  bool ranks = false;
  for (const Subject& subject : subjects_) {
    if (!subject.judge.firing()) continue;
    if (subject.unit == Unit::kNone) {
      ranks = true;
      continue;
    }
    std::vector<int32_t>& layers = missing[subject.unit_name];
    if (subject.layer >= 0) layers.push_back(subject.layer);
  }
  std::vector<std::string> parts;
  for (auto& [kind, layers] : missing) {
    std::sort(layers.begin(), layers.end());
    parts.push_back(
        layers.empty()
            ? kind
            : absl::StrCat(kind, layers.size() == 1 ? " of layer " : " of layers ", Some(layers)));
  }
  if (ranks) {
    parts.push_back(alert_.ranks.empty() ? "ranks that take part in no step"
                                         : RanksText(alert_.ranks));
  }
  if (parts.empty()) return "what was announced comes again";
  return absl::StrCat("announced and not come: ", absl::StrJoin(parts, "; "));
}

}  // namespace foreshock
