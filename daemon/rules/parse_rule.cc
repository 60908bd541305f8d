// A rule: what it looks at, when that is abnormal, when it fires and ends, and what it says.

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/band.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {
namespace {

uint8_t ParseRebaseOn(const yaml::YamlNode& node, uint8_t fallback) {
  if (!node.present()) return fallback;
  uint8_t causes = 0;
  for (const yaml::YamlNode& item : node.Items()) {
    const std::string word = item.Word({"lr", "batch_size", "data", "window", "cadence"});
    causes |= word == "lr"           ? kRebaseLr
              : word == "batch_size" ? kRebaseBatchSize
              : word == "data"       ? kRebaseData
              : word == "window"     ? kRebaseWindow
              : word == "cadence"    ? kRebaseCadence
                                     : 0;
  }
  return causes;
}

// "3 of 5"
void ParseHits(const yaml::YamlNode& node, MachineParams* machine) {
  if (!node.present()) return;
  const std::string text = node.String();
  if (!node.is_scalar()) return;
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  int hits = 0;
  int of = 0;
  if (words.size() == 3 && words[1] == "of" && absl::SimpleAtoi(words[0], &hits) &&
      absl::SimpleAtoi(words[2], &of) && 1 <= hits && hits <= of && of <= 64) {
    machine->hits = hits;
    machine->of = of;
    return;
  }
  node.Error(
      absl::StrCat("`hits` is ", text,
                   "; \"k of n\" with 1 <= k <= n <= 64 is expected, for example \"3 of 5\""));
}

Quorum ParseQuorum(const yaml::YamlNode& node) {
  Quorum quorum;
  if (!node.present()) return quorum;
  const std::string text = node.String();
  if (!node.is_scalar()) return quorum;
  double percent = 0;
  if (absl::EndsWith(text, "%") &&
      absl::SimpleAtod(absl::string_view(text).substr(0, text.size() - 1), &percent) &&
      percent > 0 && percent <= 100) {
    quorum.share = percent / 100;
    return quorum;
  }
  if (absl::SimpleAtoi(text, &quorum.count) && quorum.count >= 1) return quorum;
  node.Error(
      absl::StrCat("the quorum ", text, " is not allowed; a count from 1, or a share such as 50%"));
  return Quorum();
}

void ParseQuorums(const yaml::YamlNode& node, Rule* rule) {
  rule->layers = ParseQuorum(node.Get("layers"));
  static constexpr std::pair<absl::string_view, model::Unit> kUnits[] = {
      {"heads", model::Unit::kHead},
      {"experts", model::Unit::kExpert},
      {"projections", model::Unit::kProjection},
      {"ranks", model::Unit::kRank},
      {"tensors", model::Unit::kTensor}};
  const std::string& indicator = rule->input.indicators.empty() ? "" : rule->input.indicators[0];
  const model::IndicatorInfo* info = InfoOf(indicator);
  for (const auto& [key, unit] : kUnits) {
    const yaml::YamlNode units = node.Get(key);
    if (!units.present()) continue;
    rule->units = ParseQuorum(units);
    if (info != nullptr ? info->unit != unit : unit != model::Unit::kRank) {
      units.Error(absl::StrCat("`", key, "` is no unit of ", indicator, ", whose unit is ",
                               info != nullptr ? model::UnitName(info->unit) : "rank"));
    } else if (rule->input.aggregate != Input::Aggregate::kEach) {
      units.Error(absl::StrCat("a quorum of ", key, " needs `aggregate: each`"));
    }
  }
}

// "100000 samples"
int64_t ParsePromise(const yaml::YamlNode& node) {
  if (!node.present()) return 0;
  const Length promise = ParseLength(node, {});
  constexpr int64_t kPromiseMin = 100;
  if (!promise.in_samples || promise.count < kPromiseMin) {
    node.Error(absl::StrCat("the promise ", node.String(), " is not allowed; write in how many ",
                            "samples at most one start may be false, at least ", kPromiseMin,
                            ", for example \"100000 samples\""));
  }
  return promise.count;
}

// A band has values as they are sent or computed.
void CheckReference(const yaml::YamlNode& baseline, const Rule& rule) {
  const Input& input = rule.input;
  if (input.combine != Input::Combine::kNone || !input.divide_by.empty() || input.siblings) {
    baseline.Error(
        "a band knows nothing of `combine`, `divide_by` and `siblings`; they are not allowed with "
        "the baseline `reference`");
  } else if (rule.baseline.band != nullptr &&
             !rule.baseline.band->Has(input.aggregate, input.indicators[0])) {
    baseline.Error(absl::StrCat("the band has no series of ", input.indicators[0],
                                " with this `aggregate`; nothing could be judged"));
  }
}

}  // namespace

Rule ParseRule(const std::string& group, const yaml::YamlNode& node, const yaml::YamlNode& defaults,
               Bands* bands) {
  const Keys keys(node, defaults);
  Rule rule;
  rule.group = group;
  rule.name = ParseName(node.Require("alert"));
  rule.detector = ParseDetector(node);
  const Family family = FamilyOf(rule.detector);
  const bool has_input = family == Family::kSamples || family == Family::kAbsence;
  if (has_input) rule.input = ParseInput(node, keys);

  const yaml::YamlNode baseline = keys.Get("baseline");
  rule.baseline = ParseBaseline(baseline, rule.detector, bands);
  const bool compares = rule.baseline.kind != BaselineSpec::Kind::kNone;
  if (!compares && node.Get("baseline").present()) {
    baseline.Error(absl::StrCat("`baseline` is for detectors that compare with one: ",
                                absl::StrJoin(BaselineDetectorNames(), ", ")));
  }
  if (rule.baseline.kind == BaselineSpec::Kind::kPlateau &&
      (rule.input.indicators != std::vector<std::string>{"train.lr"} ||
       !std::holds_alternative<RelativeSpec>(rule.detector))) {
    baseline.Error("the baseline `plateau` is for a relative detector on train.lr");
  }
  const bool reference = rule.baseline.kind == BaselineSpec::Kind::kReference;
  if (reference) CheckReference(baseline, rule);
  rule.rebase_on = ParseRebaseOn(keys.Get("rebase_on"), rule.rebase_on);

  // A run has no samples to count.
  if (family != Family::kRun) {
    ParseHits(keys.Get("hits"), &rule.machine);
    rule.machine.pending_for = ParseLength(keys.Get("for"), {});
  }
  rule.machine.keep_firing_for = ParseLength(keys.Get("keep_firing_for"), {});
  rule.rate_limit = ParseRateLimit(keys.Get("rate_limit"));
  if (family == Family::kSamples) rule.promise_samples = ParsePromise(keys.Get("promise"));
  rule.machine.clear_samples = static_cast<int>(keys.Get("clear_samples").Int({1, kSamplesMax}, 1));
  for (const yaml::YamlNode& map : {node, defaults}) {
    if (!map.Has("release_samples")) continue;
    map.Get("release_samples")
        .Error(
            "`release_samples` is gone: no alert ends because time has passed. It ends when the "
            "value "
            "is "
            "back, when a change of the data is declared, or where `accept_while` names a rule "
            "that "
            "explains it; remove the key");
  }

  const std::string warm_up = keys.Get("warm_up").Word(
      {"skip", "judge"}, reference || JudgedFromTheStart(rule.detector) ? "judge" : "skip");
  rule.judged_in_warm_up = warm_up == "judge" || family != Family::kSamples;
  if (has_input) ParseQuorums(keys.Get("quorum"), &rule);

  const Labels labels = ParseLabels(node, node.Get("labels"), defaults.Get("labels"));
  rule.severity = labels.severity;
  rule.fault = labels.fault;
  rule.labels = labels.others;
  rule.annotations = ParseAnnotations(node.Get("annotations"));
  // Another band is another rule.
  rule.canonical = absl::StrCat(node.Canonical(), defaults.Canonical(),
                                reference && rule.baseline.band != nullptr
                                    ? absl::StrCat(rule.baseline.band->fingerprint())
                                    : "");
  return rule;
}

}  // namespace foreshock::rules
