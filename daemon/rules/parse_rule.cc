#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/parse.h"

namespace foreshock {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();
constexpr int kSamplesMax = 100'000;
constexpr YamlRange<double> kPositive = {1e-300, kAny};

// A key of the rule, or of the group's defaults when the rule does not have it.
class Keys {
 public:
  Keys(const YamlNode& rule, const YamlNode& defaults) : rule_(rule), defaults_(defaults) {}
  YamlNode Get(absl::string_view key) const {
    YamlNode fallback = defaults_.Get(key);  // asked for in any case: it is a known key there
    YamlNode own = rule_.Get(key);
    return own.present() || !fallback.present() ? own : fallback;
  }

 private:
  const YamlNode& rule_;
  const YamlNode& defaults_;
};

const std::vector<std::string>& IndicatorIds() {
  static const auto* ids = [] {
    auto* all = new std::vector<std::string>();
    for (const IndicatorInfo& info : Indicators()) all->emplace_back(info.id);
    return all;
  }();
  return *ids;
}

std::string ParseIndicator(const YamlNode& node) {
  std::string id = node.String();
  if (!node.present() || !node.is_scalar() || IsKnownIndicator(id)) return id;
  const absl::string_view near = NearestWord(id, IndicatorIds());
  node.Error(absl::StrCat("unknown indicator ", id, "; ",
                          near.empty() ? "" : absl::StrCat("did you mean ", near, "? "),
                          "Allowed are the ids of the catalogue, train.<scalar name>, and both "
                          "behind eval."));
  return id;
}

// nullptr: a scalar, which has no units, or one per rank.
const IndicatorInfo* InfoOf(absl::string_view id) {
  return FindIndicator(absl::StripPrefix(id, "eval."));
}

bool RunWide(absl::string_view id) {
  const IndicatorInfo* info = InfoOf(id);
  return info == nullptr || (info->unit == Unit::kNone && !info->per_layer);
}

Input::Scope ParseScope(const YamlNode& node) {
  const std::string word = node.Word({"any", "rank", "run"}, "any");
  return word == "rank"  ? Input::Scope::kRank
         : word == "run" ? Input::Scope::kRun
                         : Input::Scope::kAny;
}

uint32_t ParseJudgedFlags(const YamlNode& node) {
  static constexpr std::pair<absl::string_view, uint32_t> kFlags[] = {
      {"grid", kFlagGrid},
      {"gram32", kFlagGram32},
      {"few_tokens", kFlagFewTokens},
      {"partial", kFlagPartial}};
  uint32_t not_judged = kFlagsNotJudged;
  for (const YamlNode& item : node.Items()) {
    const std::string word = item.Word({"grid", "gram32", "few_tokens", "partial"});
    for (const auto& [name, flag] : kFlags) {
      if (word == name) not_judged &= ~flag;
    }
  }
  return not_judged;
}

Input ParseInput(const YamlNode& node, const Keys& keys) {
  Input input;
  const YamlNode indicator = node.Get("indicator");
  const YamlNode several = node.Get("indicators");
  const YamlNode combine = node.Get("combine");
  if (several.present()) {
    if (indicator.present()) several.Error("`indicators` and `indicator` exclude each other");
    for (const YamlNode& item : several.Items()) {
      input.indicators.push_back(ParseIndicator(item));
      if (item.is_scalar() && !RunWide(input.indicators.back())) {
        item.Error(absl::StrCat(input.indicators.back(),
                                " has layers or units; only run-wide indicators can be combined"));
      }
    }
    if (input.indicators.size() < 2 || input.indicators.size() > 16) {
      several.Error(absl::StrCat("`indicators` has ", input.indicators.size(),
                                 " items; 2 to 16 are allowed"));
    }
    if (!combine.present()) several.Error("`combine` is missing beside `indicators`");
    const std::string word = combine.Word({"norm", "sum", "mean", "min", "max"}, "norm");
    input.combine = word == "norm"   ? Input::Combine::kNorm
                    : word == "sum"  ? Input::Combine::kSum
                    : word == "mean" ? Input::Combine::kMean
                    : word == "min"  ? Input::Combine::kMin
                                     : Input::Combine::kMax;
  } else {
    if (!indicator.present()) node.Error("the key `indicator` is missing");
    if (combine.present()) combine.Error("`combine` needs `indicators`");
    input.indicators.push_back(ParseIndicator(indicator));
  }

  input.scope = ParseScope(node.Get("scope"));
  const YamlNode aggregate = keys.Get("aggregate");
  const std::string word = aggregate.Word({"each", "mean", "min", "max", "p10"}, "each");
  input.aggregate = word == "mean"  ? Input::Aggregate::kMean
                    : word == "min" ? Input::Aggregate::kMin
                    : word == "max" ? Input::Aggregate::kMax
                    : word == "p10" ? Input::Aggregate::kP10
                                    : Input::Aggregate::kEach;

  const YamlNode divide_by = node.Get("divide_by");
  if (divide_by.present()) {
    input.divide_by = ParseIndicator(divide_by);
    if (!RunWide(input.divide_by)) {
      divide_by.Error(absl::StrCat(input.divide_by,
                                   " has layers or units; only a run-wide indicator can divide"));
    }
  }
  input.smooth = static_cast<int>(keys.Get("smooth").Get("median").Int({1, 1000}, 1));
  input.flags_not_judged = ParseJudgedFlags(keys.Get("judge_flags"));
  return input;
}

// `above`, `below` (and for z `outside`): exactly one of them, with `clear` on its healthy side.
void ParseSide(const YamlNode& node, YamlRange<double> range, bool outside, Detector* detector) {
  struct Choice {
    absl::string_view key;
    Detector::Side side;
  };
  static constexpr Choice kChoices[] = {{"above", Detector::Side::kAbove},
                                        {"below", Detector::Side::kBelow},
                                        {"outside", Detector::Side::kOutside}};
  int given = 0;
  for (const Choice& choice : kChoices) {
    if (choice.side == Detector::Side::kOutside && !outside) continue;
    const YamlNode limit = node.Get(choice.key);
    if (!limit.present()) continue;
    ++given;
    detector->side = choice.side;
    detector->limit =
        limit.Double(choice.side == Detector::Side::kOutside ? YamlRange<double>{0, kAny} : range);
  }
  const absl::string_view names = outside ? "above, below, outside" : "above, below";
  if (given != 1) {
    node.Error(absl::StrCat(given, " limits are given; exactly one of ", names, " is expected"));
  }
  const YamlNode clear = node.Get("clear");
  detector->clear = clear.Double(range, detector->limit);
  if (given != 1 || !clear.present()) return;
  const bool below = detector->side == Detector::Side::kBelow;
  if (below ? detector->clear < detector->limit : detector->clear > detector->limit) {
    clear.Error(absl::StrCat("`clear` is ", detector->clear, " but the limit is ", detector->limit,
                             "; it must lie on the healthy side, at ", below ? "least " : "most ",
                             detector->limit));
  }
}

void ParseNonFinite(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kNonFinite;
  detector->names = node.Get("names").Strings();
  detector->scope = ParseScope(node.Get("scope"));
  const YamlNode ranks = node.Get("ranks");
  detector->ranks_more_than = ranks.Get("more_than").Double({0, 1}, 0);
  detector->ranks_at_most = ranks.Get("at_most").Double({0, 1}, 1);
  if (ranks.present() && detector->ranks_more_than >= detector->ranks_at_most) {
    ranks.Error("no share of ranks is more than `more_than` and at most `at_most`");
  }
  detector->skipped_steps =
      node.Get("skipped_steps").Word({"ignore", "judge"}, "ignore") == "judge";
}

Detector ParseDetector(const YamlNode& rule) {
  static constexpr absl::string_view kDetectors[] = {"threshold", "relative_drop", "relative_rise",
                                                     "robust_z",  "non_finite",    "no_data"};
  Detector detector;
  std::vector<absl::string_view> given;
  for (const absl::string_view name : kDetectors) {
    const YamlNode node = rule.Get(name);
    if (!node.present()) continue;
    given.push_back(name);
    detector = Detector();
    if (name == "threshold") {
      ParseSide(node, {-kAny, kAny}, /*outside=*/false, &detector);
    } else if (name == "relative_drop" || name == "relative_rise") {
      const bool drop = name == "relative_drop";
      detector.kind = Detector::Kind::kRelative;
      detector.side = drop ? Detector::Side::kBelow : Detector::Side::kAbove;
      const YamlRange<double> range = drop ? YamlRange<double>{0, 1} : YamlRange<double>{1, kAny};
      detector.limit = node.Require(drop ? "below" : "above").Double(range, 1);
      const YamlNode clear = node.Get("clear");
      detector.clear = clear.Double(range, detector.limit);
      if (drop ? detector.clear < detector.limit : detector.clear > detector.limit) {
        clear.Error(absl::StrCat("`clear` is ", detector.clear, " but the limit is ",
                                 detector.limit, "; it must lie on the healthy side, at ",
                                 drop ? "least " : "most ", detector.limit));
      }
      detector.min_z = node.Get("min_z").Double({0, 1000}, 0);
    } else if (name == "robust_z") {
      detector.kind = Detector::Kind::kRobustZ;
      ParseSide(node, {-1e6, 1e6}, /*outside=*/true, &detector);
      detector.log = node.Get("log").Bool(false);
    } else if (name == "non_finite") {
      ParseNonFinite(node, &detector);
    } else {
      detector.kind = Detector::Kind::kNoData;
      detector.intervals = static_cast<int>(node.Get("intervals").Int({1, 1000}, 3));
    }
  }
  if (given.size() != 1) {
    rule.Error(absl::StrCat(
        given.empty() ? "no detector is given"
                      : absl::StrCat("the detectors ", absl::StrJoin(given, ", "), " are given"),
        "; exactly one of ", absl::StrJoin(kDetectors, ", "), " is expected"));
  }
  return detector;
}

BaselineSpec ParseBaseline(const YamlNode& node, const Detector& detector) {
  BaselineSpec spec;
  if (detector.kind != Detector::Kind::kRelative && detector.kind != Detector::Kind::kRobustZ) {
    return spec;
  }
  const std::string kind =
      node.Get("kind").Word({"trailing", "anchored", "fixed", "plateau"}, "trailing");
  if (kind == "trailing") {
    spec.kind = BaselineSpec::Kind::kTrailing;
    spec.samples = static_cast<int>(node.Get("samples").Int({2, kSamplesMax}, 30));
    spec.lag = static_cast<int>(node.Get("lag").Int({1, kSamplesMax}, 5));
    const YamlNode min_samples = node.Get("min_samples");
    spec.min_samples =
        static_cast<int>(min_samples.Int({2, kSamplesMax}, std::min<int64_t>(8, spec.samples)));
    if (spec.min_samples > spec.samples) {
      min_samples.Error(absl::StrCat("`min_samples` is ", spec.min_samples, " but `samples` is ",
                                     spec.samples, "; at most that many are there"));
    }
  } else if (kind == "anchored") {
    spec.kind = BaselineSpec::Kind::kAnchored;
    spec.samples = static_cast<int>(node.Get("samples").Int({2, kSamplesMax}, 10));
  } else if (kind == "fixed") {
    spec.kind = BaselineSpec::Kind::kFixed;
    spec.value = node.Require("value").Double(kPositive, 1);
  } else {
    spec.kind = BaselineSpec::Kind::kPlateau;
  }
  if (spec.kind != BaselineSpec::Kind::kPlateau) {
    spec.spread_floor = node.Get("spread_floor").Double({0, 1}, 1e-3);
  }
  return spec;
}

uint8_t ParseRebaseOn(const YamlNode& node, uint8_t fallback) {
  if (!node.present()) return fallback;
  uint8_t causes = 0;
  for (const YamlNode& item : node.Items()) {
    const std::string word = item.Word({"lr", "batch_size", "data", "window"});
    causes |= word == "lr"           ? kRebaseLr
              : word == "batch_size" ? kRebaseBatchSize
              : word == "data"       ? kRebaseData
              : word == "window"     ? kRebaseWindow
                                     : 0;
  }
  return causes;
}

// "3 of 5"
void ParseHits(const YamlNode& node, MachineParams* machine) {
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

Quorum ParseQuorum(const YamlNode& node) {
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

void ParseQuorums(const YamlNode& node, Rule* rule) {
  rule->layers = ParseQuorum(node.Get("layers"));
  static constexpr std::pair<absl::string_view, Unit> kUnits[] = {
      {"heads", Unit::kHead},
      {"experts", Unit::kExpert},
      {"projections", Unit::kProjection},
      {"ranks", Unit::kRank},
      {"tensors", Unit::kTensor}};
  const std::string& indicator = rule->input.indicators.empty() ? "" : rule->input.indicators[0];
  const IndicatorInfo* info = InfoOf(indicator);
  for (const auto& [key, unit] : kUnits) {
    const YamlNode units = node.Get(key);
    if (!units.present()) continue;
    rule->units = ParseQuorum(units);
    if (info != nullptr ? info->unit != unit : unit != Unit::kRank) {
      units.Error(absl::StrCat("`", key, "` is no unit of ", indicator, ", whose unit is ",
                               info != nullptr ? UnitName(info->unit) : "rank"));
    } else if (rule->input.aggregate != Input::Aggregate::kEach) {
      units.Error(absl::StrCat("a quorum of ", key, " needs `aggregate: each`"));
    }
  }
}

}  // namespace

Rule ParseRule(const std::string& group, const YamlNode& node, const YamlNode& defaults) {
  const Keys keys(node, defaults);
  Rule rule;
  rule.group = group;
  rule.name = ParseName(node.Require("alert"));
  rule.detector = ParseDetector(node);
  const bool findings = rule.detector.kind == Detector::Kind::kNonFinite;
  if (!findings) rule.input = ParseInput(node, keys);

  const YamlNode baseline = keys.Get("baseline");
  rule.baseline = ParseBaseline(baseline, rule.detector);
  const bool compares = rule.baseline.kind != BaselineSpec::Kind::kNone;
  if (!compares && node.Get("baseline").present()) {
    baseline.Error("`baseline` is for relative_drop, relative_rise and robust_z");
  }
  if (rule.baseline.kind == BaselineSpec::Kind::kPlateau &&
      (rule.input.indicators != std::vector<std::string>{"train.lr"} ||
       rule.detector.kind != Detector::Kind::kRelative)) {
    baseline.Error("the baseline `plateau` is for a relative detector on train.lr");
  }
  rule.rebase_on = ParseRebaseOn(keys.Get("rebase_on"), rule.rebase_on);

  ParseHits(keys.Get("hits"), &rule.machine);
  rule.machine.pending_for = ParseLength(keys.Get("for"), {});
  rule.machine.keep_firing_for = ParseLength(keys.Get("keep_firing_for"), {});
  rule.machine.clear_samples = static_cast<int>(keys.Get("clear_samples").Int({1, kSamplesMax}, 1));
  // A new level is accepted in the end only where there is a level that is learnt.
  const bool learns = rule.baseline.kind == BaselineSpec::Kind::kTrailing ||
                      rule.baseline.kind == BaselineSpec::Kind::kAnchored;
  rule.machine.release_samples =
      static_cast<int>(keys.Get("release_samples").Int({1, kSamplesMax}, 200));
  if (!learns) rule.machine.release_samples = 0;

  const std::string warm_up =
      keys.Get("warm_up").Word({"skip", "judge"}, findings ? "judge" : "skip");
  rule.judged_in_warm_up =
      warm_up == "judge" || rule.detector.kind == Detector::Kind::kNoData || findings;
  if (!findings) ParseQuorums(keys.Get("quorum"), &rule);

  const Labels labels = ParseLabels(node, node.Get("labels"), defaults.Get("labels"));
  rule.severity = labels.severity;
  rule.fault = labels.fault;
  rule.labels = labels.others;
  rule.annotations = ParseAnnotations(node.Get("annotations"));
  rule.canonical = absl::StrCat(node.Canonical(), defaults.Canonical());
  return rule;
}

}  // namespace foreshock
