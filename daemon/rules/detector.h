// Every detector of the rule language, and what may be asked of any of them.
//
//   const Detector detector = ParseDetector(rule_node);
//   if (FamilyOf(detector) == Family::kSamples) ...
//   if (const auto* spec = std::get_if<RelativeSpec>(&detector)) Use(spec->limits);
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "daemon/rules/detectors/best_so_far.h"
#include "daemon/rules/detectors/continuity.h"
#include "daemon/rules/detectors/coverage.h"
#include "daemon/rules/detectors/cusum.h"
#include "daemon/rules/detectors/drift.h"
#include "daemon/rules/detectors/frozen.h"
#include "daemon/rules/detectors/hang.h"
#include "daemon/rules/detectors/level.h"
#include "daemon/rules/detectors/level_shift.h"
#include "daemon/rules/detectors/no_data.h"
#include "daemon/rules/detectors/non_finite.h"
#include "daemon/rules/detectors/relative.h"
#include "daemon/rules/detectors/restarts.h"
#include "daemon/rules/detectors/robust_z.h"
#include "daemon/rules/detectors/skipped.h"
#include "daemon/rules/detectors/slope.h"
#include "daemon/rules/detectors/spike.h"
#include "daemon/rules/detectors/spike_budget.h"
#include "daemon/rules/detectors/threshold.h"

namespace foreshock::rules {

// In the order in which messages name them. A new detector is a file pair in detectors/ and a line
// here.
using Detector = std::variant<LevelSpec,        //
                              BestSoFarSpec,    //
                              DriftSpec,        //
                              SpikeSpec,        //
                              FrozenSpec,       //
                              ThresholdSpec,    //
                              RelativeSpec,     //
                              RobustZSpec,      //
                              CusumSpec,        //
                              LevelShiftSpec,   //
                              SlopeSpec,        //
                              SpikeBudgetSpec,  //
                              ContinuitySpec,   //
                              NonFiniteSpec,    //
                              NoDataSpec,       //
                              HangSpec,         //
                              CoverageSpec,     //
                              RestartsSpec,     //
                              SkippedSpec>;

// The one that `rule` names. No or several detectors are an error of the node.
Detector ParseDetector(const yaml::YamlNode& rule);

Family FamilyOf(const Detector& detector);
bool ComparesWithBaseline(const Detector& detector);
bool ComparesAttempts(const Detector& detector);
// Whether it needs no settled run: it judges in the warm-up too.
bool JudgedFromTheStart(const Detector& detector);
// The key that selects it; the first one where it has several.
absl::string_view NameOf(const Detector& detector);
// The keys of the detectors that compare with a baseline.
std::vector<absl::string_view> BaselineDetectorNames();

// See Spec, in detectors/spec.h.
Side SideOf(const Detector& detector);
const Limits* MovableLimits(const Detector& detector);  // may be null
Limits* MovableLimits(Detector* detector);
int NewestSamples(const Detector& detector);
std::string Measured(const Detector& detector, std::string input);
std::optional<double> LimitFor(const Detector& detector, const std::optional<double>& baseline);
AllowedRange Allowed(const Detector& detector, const Baseline& baseline);

// null: it does not judge single series.
std::unique_ptr<SampleDetector> NewSampleDetector(const Detector& detector);
// Judges a run by the rule.
std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule);

}  // namespace foreshock::rules
