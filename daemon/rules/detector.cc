#include "daemon/rules/detector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"
#include "daemon/rules/samples_judge.h"

namespace foreshock::rules {
namespace {

// Calls `visit` with a default of each spec, in their order.
template <typename... Specs, typename Visit>
void ForEachSpec(const std::variant<Specs...>* /*which*/, const Visit& visit) {
  (visit(Specs()), ...);
}
template <typename Visit>
void ForEachSpec(const Visit& visit) {
  ForEachSpec(static_cast<const Detector*>(nullptr), visit);
}

template <typename Spec>
concept JudgesSeries = requires(const Spec& spec) {
  spec.NewDetector();
};

}  // namespace

Detector ParseDetector(const yaml::YamlNode& rule) {
  Detector detector;
  std::vector<absl::string_view> names;
  std::vector<absl::string_view> given;
  ForEachSpec([&]<typename Spec>(const Spec& /*spec*/) {
    for (const absl::string_view name : Spec::kNames) {
      names.push_back(name);
      const yaml::YamlNode node = rule.Get(name);
      if (!node.present()) continue;
      given.push_back(name);
      detector = Spec::Parse(node, name);
    }
  });
  if (given.size() != 1) {
    rule.Error(absl::StrCat(
        given.empty() ? "no detector is given"
                      : absl::StrCat("the detectors ", absl::StrJoin(given, ", "), " are given"),
        "; exactly one of ", absl::StrJoin(names, ", "), " is expected"));
  }
  return detector;
}

Family FamilyOf(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.kFamily; }, detector);
}
bool ComparesWithBaseline(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.kComparesWithBaseline; }, detector);
}
bool ComparesAttempts(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.kComparesAttempts; }, detector);
}

bool JudgedFromTheStart(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.kJudgedFromTheStart; }, detector);
}

absl::string_view NameOf(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.kNames[0]; }, detector);
}

std::vector<absl::string_view> BaselineDetectorNames() {
  std::vector<absl::string_view> names;
  ForEachSpec([&names]<typename Spec>(const Spec& /*spec*/) {
    if (!Spec::kComparesWithBaseline) return;
    names.insert(names.end(), std::begin(Spec::kNames), std::end(Spec::kNames));
  });
  return names;
}

Side SideOf(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.side(); }, detector);
}
const Limits* MovableLimits(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.movable_limits(); }, detector);
}
Limits* MovableLimits(Detector* detector) {
  return const_cast<Limits*>(MovableLimits(std::as_const(*detector)));
}
int NewestSamples(const Detector& detector) {
  return std::visit([](const auto& spec) { return spec.newest_samples(); }, detector);
}
std::string Measured(const Detector& detector, std::string input) {
  return std::visit([&input](const auto& spec) { return spec.Measured(std::move(input)); },
                    detector);
}
std::optional<double> LimitFor(const Detector& detector, const std::optional<double>& baseline) {
  return std::visit([&baseline](const auto& spec) { return spec.LimitFor(baseline); }, detector);
}
AllowedRange Allowed(const Detector& detector, const Baseline& baseline) {
  return std::visit([&baseline](const auto& spec) { return spec.Allowed(baseline); }, detector);
}

std::unique_ptr<SampleDetector> NewSampleDetector(const Detector& detector) {
  return std::visit(
      []<typename Spec>(const Spec& spec) -> std::unique_ptr<SampleDetector> {
        if constexpr (JudgesSeries<Spec>) return spec.NewDetector();
        return nullptr;
      },
      detector);
}

std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule) {
  const Detector& detector = rule->detector;
  return std::visit(
      [&rule]<typename Spec>(const Spec& spec) -> std::unique_ptr<RuleJudge> {
        if constexpr (requires { spec.NewJudge(rule); }) return spec.NewJudge(std::move(rule));
        return std::make_unique<SamplesJudge>(std::move(rule));
      },
      detector);
}

}  // namespace foreshock::rules
