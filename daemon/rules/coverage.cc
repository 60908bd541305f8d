#include "daemon/rules/coverage.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace foreshock::rules {
namespace {

constexpr int64_t kNever = -1;

// QkFactors and QkGram give the same indicators; kinds without indicators have no family.
Coverage::Family FamilyOfKind(v1::SummaryKind kind) {
  switch (kind) {
    case v1::SUMMARY_KIND_QK_GRAM:
      return v1::SUMMARY_KIND_QK_FACTORS;
    case v1::SUMMARY_KIND_SCALARS:
    case v1::SUMMARY_KIND_ATTENTION_LOGITS:
    case v1::SUMMARY_KIND_QK_FACTORS:
    case v1::SUMMARY_KIND_ROUTER_GATES:
    case v1::SUMMARY_KIND_ROUTER_LOAD:
    case v1::SUMMARY_KIND_ROUTER_WEIGHTS:
    case v1::SUMMARY_KIND_TENSOR_STATS:
    case v1::SUMMARY_KIND_POLICY_MISMATCH:
      return static_cast<Coverage::Family>(kind);
    default:
      return 0;
  }
}

std::string KindName(v1::SummaryKind kind) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::SummaryKind_Name(kind), "SUMMARY_KIND_"));
}

struct Prefix {
  absl::string_view prefix;
  v1::SummaryKind kind;
};

Coverage::Family Longest(absl::Span<const Prefix> prefixes, absl::string_view name) {
  for (const Prefix& entry : prefixes) {
    if (absl::StartsWith(name, entry.prefix)) return FamilyOfKind(entry.kind);
  }
  return 0;
}

int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Steps in (after, through] at which `every`, `phase` is due.
int64_t DueWithin(int64_t after, int64_t through, int64_t every, int64_t phase) {
  return FloorDiv(through - phase, every) - FloorDiv(after - phase, every);
}

}  // namespace

Coverage::Family Coverage::FamilyOf(absl::string_view indicator) {
  static constexpr Prefix kPrefixes[] = {{"train.step_seconds", v1::SUMMARY_KIND_UNSPECIFIED},
                                         {"train.tokens_total", v1::SUMMARY_KIND_UNSPECIFIED},
                                         {"train.nonfinite", v1::SUMMARY_KIND_UNSPECIFIED},
                                         {"train.", v1::SUMMARY_KIND_SCALARS},
                                         {"attn.logits", v1::SUMMARY_KIND_ATTENTION_LOGITS},
                                         {"attn.", v1::SUMMARY_KIND_QK_FACTORS},
                                         {"router.weight_", v1::SUMMARY_KIND_ROUTER_WEIGHTS},
                                         {"router.centred_", v1::SUMMARY_KIND_ROUTER_WEIGHTS},
                                         {"router.", v1::SUMMARY_KIND_ROUTER_GATES},
                                         {"load", v1::SUMMARY_KIND_ROUTER_LOAD},
                                         {"tensor.", v1::SUMMARY_KIND_TENSOR_STATS},
                                         {"rl.", v1::SUMMARY_KIND_POLICY_MISMATCH}};
  return Longest(kPrefixes, indicator);
}

Coverage::Family Coverage::FamilyOfFinding(absl::string_view name) {
  static constexpr Prefix kPrefixes[] = {{"attention_logits", v1::SUMMARY_KIND_ATTENTION_LOGITS},
                                         {"qk_factors", v1::SUMMARY_KIND_QK_FACTORS},
                                         {"qk_gram", v1::SUMMARY_KIND_QK_GRAM},
                                         {"router_gates", v1::SUMMARY_KIND_ROUTER_GATES},
                                         {"router_load", v1::SUMMARY_KIND_ROUTER_LOAD},
                                         {"router_weights", v1::SUMMARY_KIND_ROUTER_WEIGHTS},
                                         {"policy_mismatch", v1::SUMMARY_KIND_POLICY_MISMATCH}};
  const Family family = Longest(kPrefixes, name);
  if (family != 0) return family;
  // Tensor names have a prefix such as act/, scalars have no '/'.
  return FamilyOfKind(absl::StrContains(name, '/') ? v1::SUMMARY_KIND_TENSOR_STATS
                                                   : v1::SUMMARY_KIND_SCALARS);
}

void Coverage::BeginAttempt() {
  ranks_.clear();
  for (std::vector<int64_t>& seen : seen_) seen.clear();
  any_seen_.fill(kNever);
  all_seen_.fill(kNever);
  started_ = false;
  ranks_missed_ = 0;
  ranks_expected_ = 0;
  ranks_came_ = 0;
  forgiven_ = kNever;
  changed_ = true;
}

void Coverage::Declare(uint32_t rank, uint32_t world_size, absl::Span<const v1::PlanEntry> plan) {
  world_size_ = world_size;
  Rank& known = ranks_[rank];
  known.gone = false;
  known.plan.clear();
  for (const v1::PlanEntry& entry : plan) {
    if (entry.every_steps() > 0 && entry.kind() != v1::SUMMARY_KIND_EVENT) {
      known.plan.push_back(entry);
    }
  }
  changed_ = true;
}

void Coverage::RankGone(uint32_t rank) {
  ranks_[rank].gone = true;
  changed_ = true;
}

// The tracks of all plans: where ranks differ the most frequent one counts.
void Coverage::Rebuild() {
  std::map<std::pair<Family, int32_t>, Track> tracks;
  cadences_.clear();
  const auto add = [&tracks](Family family, int32_t layer, const v1::PlanEntry& entry) {
    Track& track = tracks[{family, layer}];
    const int64_t every = entry.every_steps();
    if (track.family != 0 && track.every <= every) return;
    track = {family, KindName(entry.kind()), layer, every, entry.phase_step()};
  };
  for (const auto& [number, rank] : ranks_) {
    if (rank.gone) continue;
    std::vector<std::pair<int64_t, int64_t>> cadence;
    for (const v1::PlanEntry& entry : rank.plan) {
      cadence.emplace_back(entry.every_steps(), entry.phase_step());
      const Family family = FamilyOfKind(entry.kind());
      if (family == 0) continue;
      for (const uint32_t layer : entry.layers()) {
        if (layer < static_cast<uint32_t>(kLayersMax))
          add(family, static_cast<int32_t>(layer), entry);
      }
      if (!entry.layers().empty()) continue;
      add(family, model::kNoLayer, entry);
      // "All layers" are those that have been seen.
      for (size_t layer = 0; layer < seen_[family].size(); ++layer) {
        if (seen_[family][layer] != kNever) add(family, static_cast<int32_t>(layer), entry);
      }
    }
    std::sort(cadence.begin(), cadence.end());
    cadence.erase(std::unique(cadence.begin(), cadence.end()), cadence.end());
    if (!cadence.empty()) ++cadences_[cadence];
  }
  tracks_.clear();
  for (auto& [key, track] : tracks) tracks_.push_back(std::move(track));
  ++version_;
}

void Coverage::Undefined(Family family, int64_t step) {
  if (family != 0 && any_seen_[family] != step) all_seen_[family] = step;
}

uint32_t Coverage::RanksDue(int64_t step) const {
  uint32_t due = 0;
  for (const auto& [cadence, ranks] : cadences_) {
    const bool now = std::any_of(cadence.begin(), cadence.end(), [step](const auto& entry) {
      return step % entry.first == entry.second;
    });
    if (now) due += ranks;
  }
  // A rank that never said hello is missed whenever the others have something to send.
  if (due > 0 && world_size_ > ranks_.size()) {
    due += world_size_ - static_cast<uint32_t>(ranks_.size());
  }
  return due;
}

void Coverage::StepClosed(const model::StepRow& row) {
  if (std::exchange(changed_, false)) Rebuild();
  if (!started_) {
    started_ = true;
    start_ = row.step - 1;
  }
  const uint32_t due = RanksDue(row.step);
  if (due == 0) return;
  ranks_expected_ = due;
  ranks_came_ = row.ranks;
  ranks_missed_ = row.ranks < due ? ranks_missed_ + 1 : 0;
}

int64_t Coverage::LastSeen(const Track& track) const {
  int64_t seen = std::max(start_, all_seen_[track.family]);
  if (track.layer == model::kNoLayer) return std::max(seen, any_seen_[track.family]);
  const std::vector<int64_t>& by_layer = seen_[track.family];
  const size_t layer = static_cast<size_t>(track.layer);
  return layer < by_layer.size() ? std::max(seen, by_layer[layer]) : seen;
}

int64_t Coverage::Missed(const Track& track, int64_t step, bool forgiven) const {
  int64_t last = LastSeen(track);
  if (forgiven) last = std::max(last, forgiven_);
  return last >= step ? 0 : DueWithin(last, step, track.every, track.phase);
}

}  // namespace foreshock::rules
