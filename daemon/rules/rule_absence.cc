// Rules on what did not come as a value: silent series and non-finite input.

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock {

void RuleJudge::JudgeNoData(const Rule& rule, const StepView& view) {
  for (const size_t index : fed_) {
    Subject& subject = subjects_[index];
    if (subject.last_step >= 0) {
      const int64_t gap = view.step - subject.last_step;
      subject.interval = std::max(gap, subject.gap);
      subject.gap = gap;
    }
    subject.last_step = view.step;
  }
  for (Subject& subject : subjects_) {
    if (subject.last_step < 0)
      subject.last_step = view.step;      // a new attempt counts from its start
    if (subject.interval == 0) continue;  // what is expected is known from the second sample on
    const int64_t missed = (view.step - subject.last_step) / subject.interval;
    judged_ = true;
    const Transition transition =
        subject.judge.PushVerdict(rule, view.step, subject.last_step,
                                  missed >= rule.detector.intervals, static_cast<double>(missed));
    if (transition != Transition::kNone) changed_ = true;
  }
}

namespace {

bool NameMatches(const std::vector<std::string>& patterns, const std::string& name) {
  if (patterns.empty()) return true;
  return std::any_of(patterns.begin(), patterns.end(), [&name](absl::string_view pattern) {
    return absl::ConsumeSuffix(&pattern, "*") ? absl::StartsWith(name, pattern) : name == pattern;
  });
}

}  // namespace

void RuleJudge::JudgeFindings(const Rule& rule, const StepView& view) {
  finding_ranks_.clear();
  const bool skipped = view.row.skipped && !rule.detector.skipped_steps;
  absl::flat_hash_set<int64_t> known_ranks;
  std::vector<uint32_t> layers;
  double count = 0;
  const Finding* first = nullptr;
  for (const Finding& finding : view.findings) {
    if (finding.kind != Finding::Kind::kNonFinite || skipped) continue;
    if (!NameMatches(rule.detector.names, finding.name)) continue;
    const auto senders = view.rank_scalars.find(finding.name);
    const bool per_rank = senders != view.rank_scalars.end();
    if (rule.detector.scope == Input::Scope::kRank && !per_rank) continue;
    if (rule.detector.scope == Input::Scope::kRun && per_rank) continue;
    if (per_rank) known_ranks.insert(senders->second.begin(), senders->second.end());
    if (first == nullptr) first = &finding;
    finding_ranks_.push_back(finding.rank);
    if (finding.layer >= 0) layers.push_back(static_cast<uint32_t>(finding.layer));
    count += static_cast<double>(finding.count);
  }
  std::sort(finding_ranks_.begin(), finding_ranks_.end());
  finding_ranks_.erase(std::unique(finding_ranks_.begin(), finding_ranks_.end()),
                       finding_ranks_.end());
  for (const uint32_t rank : finding_ranks_) known_ranks.insert(rank);
  const size_t ranks = rule.detector.scope == Input::Scope::kRank
                           ? known_ranks.size()
                           : std::max<size_t>(view.row.ranks, known_ranks.size());
  const double share =
      ranks == 0 ? 0 : static_cast<double>(finding_ranks_.size()) / static_cast<double>(ranks);
  const bool breach = first != nullptr && share > rule.detector.ranks_more_than &&
                      share <= rule.detector.ranks_at_most;
  if (breach && !alert_.active) {
    finding_name_ = first->name;
    finding_head_ = first->head;
    finding_layers_.clear();
  }
  if (breach) {
    for (const uint32_t layer : layers) finding_layers_.push_back(layer);
    std::sort(finding_layers_.begin(), finding_layers_.end());
    finding_layers_.erase(std::unique(finding_layers_.begin(), finding_layers_.end()),
                          finding_layers_.end());
  }
  if (!breach) finding_ranks_.clear();
  const size_t subject = FindOrAdd(rule, SeriesKey{});
  judged_ = true;
  const Transition transition =
      subjects_[subject].judge.PushVerdict(rule, view.step, view.step - 1, breach, count);
  if (transition != Transition::kNone) changed_ = true;
}

}  // namespace foreshock
