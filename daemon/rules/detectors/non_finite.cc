#include "daemon/rules/detectors/non_finite.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "daemon/base/archive.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {
namespace {

bool NameMatches(const std::vector<std::string>& patterns, const std::string& name) {
  if (patterns.empty()) return true;
  return std::any_of(patterns.begin(), patterns.end(), [&name](absl::string_view pattern) {
    return absl::ConsumeSuffix(&pattern, "*") ? absl::StartsWith(name, pattern) : name == pattern;
  });
}

template <typename T>
void SortUnique(std::vector<T>* items) {
  std::sort(items->begin(), items->end());
  items->erase(std::unique(items->begin(), items->end()), items->end());
}

class NonFinite final : public RuleJudge {
 public:
  NonFinite(const NonFiniteSpec& spec, std::shared_ptr<const Rule> rule)
      : RuleJudge(std::move(rule)), spec_(spec) {}

  void DescribeSource(v1::Alert* out) const override {
    out->set_indicator("train.nonfinite");
    out->set_unit_name(name_);
    if (head_ >= 0) out->set_head(static_cast<uint32_t>(head_));
  }

 private:
  // What the findings of a step come to, of those that the rule looks at.
  struct Found {
    const model::Finding* first = nullptr;
    std::vector<uint32_t> layers;
    double count = 0;
    size_t ranks = 0;  // that took part
  };

  void JudgeStep(const StepView& view) override {
    Found found = Find(view);
    const double share = found.ranks == 0 ? 0
                                          : static_cast<double>(ranks_now().size()) /
                                                static_cast<double>(found.ranks);
    const bool breach =
        found.first != nullptr && share > spec_.ranks_more_than && share <= spec_.ranks_at_most;
    if (breach) {
      if (!alert().active) {
        name_ = found.first->name;
        head_ = found.first->head;
        layers_.clear();
      }
      layers_.insert(layers_.end(), found.layers.begin(), found.layers.end());
      SortUnique(&layers_);
    } else {
      ranks_now().clear();
    }
    PushVerdict(view, FindOrAdd(model::SeriesKey()),
                {.breach = breach, .value = found.count, .base_step = view.step - 1});
  }

  Found Find(const StepView& view) {
    Found found;
    if (view.row.skipped && !spec_.skipped_steps) return found;
    absl::flat_hash_set<int64_t> known_ranks;
    for (const model::Finding& finding : view.findings) {
      if (finding.kind != model::Finding::Kind::kNonFinite) continue;
      if (!NameMatches(spec_.names, finding.name)) continue;
      const auto senders = view.rank_scalars.find(finding.name);
      const bool per_rank = senders != view.rank_scalars.end();
      if (spec_.scope == (per_rank ? Input::Scope::kRun : Input::Scope::kRank)) continue;
      if (per_rank) known_ranks.insert(senders->second.begin(), senders->second.end());
      if (found.first == nullptr) found.first = &finding;
      ranks_now().push_back(finding.rank);
      if (finding.layer >= 0) found.layers.push_back(static_cast<uint32_t>(finding.layer));
      found.count += static_cast<double>(finding.count);
    }
    SortUnique(&ranks_now());
    known_ranks.insert(ranks_now().begin(), ranks_now().end());
    found.ranks = spec_.scope == Input::Scope::kRank
                      ? known_ranks.size()
                      : std::max<size_t>(view.row.ranks, known_ranks.size());
    return found;
  }

  // The findings name the layers.
  void PlaceAlert(std::vector<uint32_t>* layers) const override { *layers = layers_; }
  void RestoreSource(const v1::Alert& alert) override {
    name_ = alert.unit_name();
    head_ = alert.has_head() ? static_cast<int32_t>(alert.head()) : -1;
    layers_.assign(alert.layers().begin(), alert.layers().end());
  }
  void OwnFields(base::Archive* archive) override { archive->Take(&layers_, &name_, &head_); }

  const NonFiniteSpec& spec_;
  // Of the alert.
  std::vector<uint32_t> layers_;
  std::string name_;
  int32_t head_ = -1;
};

}  // namespace

NonFiniteSpec NonFiniteSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  NonFiniteSpec spec;
  spec.names = node.Get("names").Strings();
  spec.scope = ParseScope(node.Get("scope"));
  const yaml::YamlNode ranks = node.Get("ranks");
  spec.ranks_more_than = ranks.Get("more_than").Double({0, 1}, 0);
  spec.ranks_at_most = ranks.Get("at_most").Double({0, 1}, 1);
  if (ranks.present() && spec.ranks_more_than >= spec.ranks_at_most) {
    ranks.Error("no share of ranks is more than `more_than` and at most `at_most`");
  }
  spec.skipped_steps = node.Get("skipped_steps").Word({"ignore", "judge"}, "ignore") == "judge";
  return spec;
}

std::unique_ptr<RuleJudge> NonFiniteSpec::NewJudge(std::shared_ptr<const Rule> rule) const {
  return std::make_unique<NonFinite>(*this, std::move(rule));
}

}  // namespace foreshock::rules
