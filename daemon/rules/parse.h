// From YAML nodes to rules and signatures. Errors go into the document of the node.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/rule.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::rules {

// A key of the rule, or of the group's defaults when the rule does not have it.
class Keys {
 public:
  Keys(const yaml::YamlNode& rule, const yaml::YamlNode& defaults)
      : rule_(rule), defaults_(defaults) {}
  yaml::YamlNode Get(absl::string_view key) const {
    yaml::YamlNode fallback = defaults_.Get(key);  // asked for in any case: it is a known key there
    yaml::YamlNode own = rule_.Get(key);
    return own.present() || !fallback.present() ? own : fallback;
  }

 private:
  const yaml::YamlNode& rule_;
  const yaml::YamlNode& defaults_;
};

inline constexpr int kSamplesMax = 100'000;
inline constexpr int kSeriesSamplesMax = 10'000;  // that a series keeps beside its baseline
inline constexpr double kSpreadsMax = 1e6;
inline constexpr double kAnyNumber = std::numeric_limits<double>::max();

// The band files that rules name, each read once.
class Bands {
 public:
  using ByPath = std::map<std::string, std::shared_ptr<const Band>>;

  // From now on no file is read: only these bands are there. `known` outlives this.
  void Only(const ByPath* known) { known_ = known; }
  // Names that are not absolute are meant from here: the folder of the rule file.
  void SetFolder(std::string folder) { folder_ = std::move(folder); }
  // The band of the file that `node` names; nullptr with an error at `node`, or among errors().
  std::shared_ptr<const Band> Get(const yaml::YamlNode& node);
  // What is wrong inside the files.
  const std::vector<std::string>& errors() const { return errors_; }
  const ByPath& by_path() const { return by_path_; }

 private:
  std::string folder_;
  const ByPath* known_ = nullptr;  // null: files are read
  ByPath by_path_;
  std::vector<std::string> errors_;
};

// The parts of a rule, in the order in which a value meets them.
Input ParseInput(const yaml::YamlNode& rule, const Keys& keys);
Input::Scope ParseScope(const yaml::YamlNode& node);
Input::Aggregate ParseAggregate(const yaml::YamlNode& node);
std::string ParseIndicator(const yaml::YamlNode& node);  // a known one
// Limits of a detector: `above`, `below` and, if allowed, `outside`, exactly one of them; with
// hysteresis also `clear`, on the healthy side.
struct LimitKeys {
  bool outside = true;
  bool hysteresis = true;
  Limits::Scale scale = Limits::Scale::kValue;
};
Limits ParseLimits(const yaml::YamlNode& node, yaml::YamlRange<double> range,
                   const LimitKeys& keys);
// Limits in spreads from a baseline: above it they are positive, below it negative.
Limits ParseSpreads(const yaml::YamlNode& node, bool hysteresis);
// `clear`, by default the limit. `check`: it must lie on the healthy side of the limit.
void ParseClear(const yaml::YamlNode& node, yaml::YamlRange<double> range, bool check,
                Limits* limits);
BaselineSpec ParseBaseline(const yaml::YamlNode& node, const Detector& detector, Bands* bands);
// What the catalogue says of an indicator, also of one behind "eval."; nullptr: a scalar, which has
// no units, or one per rank.
const model::IndicatorInfo* InfoOf(absl::string_view id);

// A rule as written, over the defaults of its group.
Rule ParseRule(const std::string& group, const yaml::YamlNode& rule, const yaml::YamlNode& defaults,
               Bands* bands);

// Names of alerts and where they are: what a signature may refer to.
struct AlertNames {
  absl::flat_hash_map<std::string, AlertRef> by_name;
  std::vector<std::string> all;
};

// `self` is the signature's own place: `when` may name rules and earlier signatures.
Signature ParseSignature(const yaml::YamlNode& node, const AlertNames& names, size_t self);

// Shared by both: "20 steps" or "3 samples"; labels and annotations.
struct Labels {
  std::string severity;
  std::string fault;
  std::vector<std::pair<std::string, std::string>> others;
};
Length ParseLength(const yaml::YamlNode& node, Length fallback);
// "100 steps", at least 1.
int64_t ParseSteps(const yaml::YamlNode& node);
RateLimitSpec ParseRateLimit(const yaml::YamlNode& node);
Labels ParseLabels(const yaml::YamlNode& owner, const yaml::YamlNode& labels,
                   const std::optional<yaml::YamlNode>& default_labels);
Annotations ParseAnnotations(const yaml::YamlNode& node);
// The name under `key`, checked: a letter, then letters, digits and '_'.
std::string ParseName(const yaml::YamlNode& node);

}  // namespace foreshock::rules
