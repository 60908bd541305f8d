// Rules and signatures as the evaluator uses them: plain data, made by parse_rule.cc and
// parse_signature.cc from the language of docs/rules.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/model/series.h"
#include "daemon/rules/baseline.h"
#include "daemon/rules/rate_limit.h"
#include "daemon/rules/rule_set.h"
#include "daemon/rules/state_machine.h"

namespace foreshock {

// What a rule looks at.
struct Input {
  enum class Aggregate : uint8_t { kEach, kMean, kMin, kMax, kP10 };
  enum class Combine : uint8_t { kNone, kNorm, kSum, kMean, kMin, kMax };
  enum class Scope : uint8_t { kAny, kRun, kRank };
  std::vector<std::string> indicators;     // several only with `combine`
  Scope scope = Scope::kAny;               // kRank: series of one rank; kRun: all others
  Combine combine = Combine::kNone;        // of run-wide values of the same step
  Aggregate aggregate = Aggregate::kEach;  // over the units of a layer
  // The value is divided by the mean of this run-wide indicator over the steps since the series'
  // previous sample (over the snapshot window for attn.delta*); empty: not divided.
  std::string divide_by;
  int smooth = 1;  // running median of so many values
  uint32_t flags_not_judged = kFlagsNotJudged;
};

// As rule files, bands and gauges write it, in the order of the enumeration.
inline constexpr absl::string_view kAggregateNames[] = {"each", "mean", "min", "max", "p10"};

inline absl::string_view AggregateName(Input::Aggregate aggregate) {
  return kAggregateNames[static_cast<size_t>(aggregate)];
}

struct Detector {
  enum class Kind : uint8_t {
    kThreshold,
    kRelative,
    kRobustZ,
    kCusum,
    kLevelShift,
    kSlope,
    kSpikeBudget,
    kContinuity,
    kNonFinite,
    kNoData,
    kHang,
    kCoverage,
    kRestarts,
  };
  enum class Side : uint8_t { kAbove, kBelow, kOutside };
  Kind kind = Kind::kThreshold;
  Side side = Side::kAbove;
  double limit = 0;
  double clear = 0;
  double min_z = 0;  // kRelative: a breach is also at least so many spreads away; kSlope: a trend
                     // that is less significant counts as none
  bool log = false;  // detectors in spreads: of the logarithm of positive values
  double slack = 0;  // kCusum: spreads that a sample may be off without counting
  int samples = 0;   // kLevelShift, kSlope, kSpikeBudget: the newest so many
  Side spike_side = Side::kAbove;  // kSpikeBudget: which samples are spikes, in spreads
  double spike_limit = 0;
  int min_samples = 0;      // kSlope: fewer have no trend
  double per_steps = 1;     // kSlope: the limits are per so many steps
  bool will_cross = false;  // kSlope: what is judged is the value ...
  Length within;            // ... up to so many steps ahead
  int intervals = 3;  // kNoData, kCoverage: expected samples that did not come; kHang: step times
  double at_least_seconds = 0;    // kHang: no shorter wait is one
  double first_step_seconds = 0;  // kHang: the same before an attempt's first step
  int64_t window_steps = 0;       // kRestarts: the progress in which more than `limit` begin
  // kNonFinite: which findings, and from how many of the ranks that took part in the step.
  std::vector<std::string> names;  // exact, or a prefix ending in '*'; empty: all
  Input::Scope scope = Input::Scope::kAny;
  double ranks_more_than = 0;  // share
  double ranks_at_most = 1;    // share
  bool skipped_steps = false;  // steps whose optimizer step was skipped are judged too
};

// Judges the run and what was announced of it, not the values of an indicator.
inline bool IsRunLevel(const Detector& detector) {
  return detector.kind == Detector::Kind::kHang || detector.kind == Detector::Kind::kCoverage ||
         detector.kind == Detector::Kind::kRestarts;
}

// A count, or a share of what there is.
struct Quorum {
  int count = 1;
  double share = 0;
  size_t Of(size_t total) const;
};

enum RebaseCause : uint8_t {
  kRebaseLr = 1,
  kRebaseBatchSize = 2,
  kRebaseData = 4,
  kRebaseWindow = 8,
};

struct Annotations {
  std::string summary;
  std::string description;
  std::string runbook;
};

struct Rule {
  std::string group;
  std::string name;
  std::string severity;
  std::string fault;  // may be empty
  std::vector<std::pair<std::string, std::string>> labels;
  Annotations annotations;
  Input input;
  Detector detector;
  BaselineSpec baseline;
  uint8_t rebase_on = kRebaseLr | kRebaseBatchSize | kRebaseData | kRebaseWindow;
  MachineParams machine;
  bool judged_in_warm_up = false;
  Quorum units;  // of a layer, if the rule looks at each
  Quorum layers;
  RateLimitSpec rate_limit;
  std::string canonical;  // equal text: the same rule after a reload
};

// A rule or signature by its place in the set.
struct AlertRef {
  bool signature = false;
  size_t index = 0;
  friend bool operator==(const AlertRef&, const AlertRef&) = default;
};

struct Condition {
  enum class Kind : uint8_t { kAlert, kAll, kAny, kAtLeast, kSameLayer, kHealed };
  Kind kind = Kind::kAlert;
  AlertRef alert;      // kAlert, kHealed
  int at_least = 1;    // kAtLeast
  int64_t within = 0;  // kHealed: steps from firing to resolved
  std::vector<Condition> of;
};

struct Confirmation {
  Condition when;
  std::string severity;  // never below the signature's
  std::string confidence;
};

struct Signature {
  std::string group;
  std::string name;
  std::string severity;
  std::string fault;
  std::string confidence;
  std::vector<std::pair<std::string, std::string>> labels;
  Annotations annotations;
  Condition when;
  std::vector<AlertRef> absent;       // none of these fires when it starts
  std::vector<AlertRef> not_brewing;  // none of these rules breaches in a quorum when it starts
  bool fallback = false;              // only while no other signature of warning or above fires
  int64_t window_steps = 0;           // an alert counts so many steps after it has resolved
  Length pending_for;
  int64_t keep_firing_for = 0;
  RateLimitSpec rate_limit;
  int64_t attempt_start_steps = 0;  // > 0: only in the first steps after a resume
  std::optional<AlertRef> wait_while;
  AlertRef wait_samples_of;
  int wait_samples = 0;
  std::vector<Confirmation> confirmations;
  std::vector<AlertRef> evidence;  // every rule that `when` and the confirmations name
  std::string canonical;
};

class CompiledRules final : public RuleSet {
 public:
  const std::vector<v1::RuleInfo>& infos() const override { return infos_; }
  const std::vector<v1::RuleFile>& files() const override { return files_; }

  std::vector<Rule> rules;
  std::vector<Signature> signatures;
  std::vector<v1::RuleInfo> infos_;
  std::vector<v1::RuleFile> files_;
  std::map<std::string, std::shared_ptr<const Band>> bands;  // by path
};

}  // namespace foreshock
