// Rules and signatures as the evaluator uses them: plain data that parse_rule.cc and
// parse_signature.cc read from the language of docs/rules.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/rules/baseline.h"
#include "daemon/rules/detector.h"
#include "daemon/rules/input.h"
#include "daemon/rules/rate_limit.h"
#include "daemon/rules/rule_set.h"
#include "daemon/rules/state_machine.h"

namespace foreshock::rules {

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
  kRebaseCadence = 16,  // of a series' samples: by its own steps, never by the schedule
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
  int64_t promise_samples = 0;  // > 0: at most one false start in so many samples
  // While the alert of this rule fires, what this one judges may change: its level is accepted. The
  // place in the set; unset: no such rule.
  std::optional<size_t> accept_while;
  std::string canonical;  // equal text: the same rule after a reload
};

// A rule or signature by its place in the set.
struct AlertRef {
  bool signature = false;
  size_t index = 0;
  friend bool operator==(const AlertRef&, const AlertRef&) = default;
};

struct Condition {
  enum class Kind : uint8_t { kAlert, kAll, kAny, kAtLeast, kSameLayer, kHealed, kBrewing };
  Kind kind = Kind::kAlert;
  AlertRef alert;      // kAlert, kHealed, kBrewing: breaches in a quorum, firing or not
  int at_least = 1;    // kAtLeast
  int64_t within = 0;  // kHealed: steps from firing to resolved
  std::vector<Condition> of;
};

struct Confirmation {
  Condition when;
  std::string severity;  // never below the signature's
  std::string confidence;
};

// What speaks for a name, or against it.
struct Term {
  Condition when;
  int points = 0;  // negative: against
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
  std::vector<Term> score;         // empty: it does not compete with other names
  std::vector<AlertRef> explains;  // rules whose alerts follow from this fault
  int64_t window_steps = 0;        // an alert counts so many steps after it has resolved
  Length pending_for;
  int64_t keep_firing_for = 0;
  RateLimitSpec rate_limit;
  int64_t attempt_start_steps = 0;  // > 0: only in the first steps after a resume
  std::optional<AlertRef> wait_while;  // unset: whatever fires
  AlertRef wait_samples_of;
  int wait_samples = 0;  // 0: it does not wait
  std::vector<Confirmation> confirmations;
  std::vector<AlertRef> evidence;  // every rule that `when`, confirmations, positive terms name
  std::vector<AlertRef> against;   // every rule that only negative terms name
  std::string canonical;
};

class CompiledRules final : public RuleSet {
 public:
  const std::vector<v1::RuleInfo>& infos() const override { return infos_; }
  const std::vector<v1::RuleFile>& files() const override { return files_; }

  std::vector<std::shared_ptr<const Rule>> rules;
  std::vector<std::shared_ptr<const Signature>> signatures;
  std::vector<v1::RuleInfo> infos_;
  std::vector<v1::RuleFile> files_;
  std::map<std::string, std::shared_ptr<const Band>> bands;  // by path
};

}  // namespace foreshock::rules
