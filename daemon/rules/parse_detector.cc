// When a value is abnormal: the detector.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/rules/parse.h"

namespace foreshock {
namespace {

// `clear`, by default the limit. `check`: there is one limit, and `clear` lies on its healthy side.
void ParseClear(const YamlNode& node, YamlRange<double> range, bool check, Detector* detector) {
  const YamlNode clear = node.Get("clear");
  detector->clear = clear.Double(range, detector->limit);
  if (!check || !clear.present()) return;
  const bool below = detector->side == Detector::Side::kBelow;
  if (below ? detector->clear < detector->limit : detector->clear > detector->limit) {
    clear.Error(absl::StrCat("`clear` is ", detector->clear, " but the limit is ", detector->limit,
                             "; it must lie on the healthy side, at ", below ? "least " : "most ",
                             detector->limit));
  }
}

}  // namespace

void ParseSide(const YamlNode& node, YamlRange<double> range, bool outside, bool hysteresis,
               Detector* detector) {
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
    detector->limit = limit.Double(
        choice.side == Detector::Side::kOutside ? YamlRange<double>{0, kAnyNumber} : range);
  }
  const absl::string_view names = outside ? "above, below, outside" : "above, below";
  if (given != 1) {
    node.Error(absl::StrCat(given, " limits are given; exactly one of ", names, " is expected"));
  }
  detector->clear = detector->limit;
  if (!hysteresis) return;
  ParseClear(node, range, /*check=*/given == 1, detector);
}

namespace {

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

}  // namespace

Detector ParseDetector(const YamlNode& rule) {
  static constexpr absl::string_view kDetectors[] = {
      "threshold",   "relative_drop", "relative_rise", "robust_z",   "cusum",
      "level_shift", "slope",         "spike_budget",  "continuity", "non_finite",
      "no_data",     "hang",          "coverage",      "restarts"};
  Detector detector;
  std::vector<absl::string_view> given;
  for (const absl::string_view name : kDetectors) {
    const YamlNode node = rule.Get(name);
    if (!node.present()) continue;
    given.push_back(name);
    detector = Detector();
    if (name == "threshold") {
      ParseSide(node, {-kAnyNumber, kAnyNumber}, /*outside=*/false, /*hysteresis=*/true, &detector);
    } else if (name == "relative_drop" || name == "relative_rise") {
      const bool drop = name == "relative_drop";
      detector.kind = Detector::Kind::kRelative;
      detector.side = drop ? Detector::Side::kBelow : Detector::Side::kAbove;
      const YamlRange<double> range =
          drop ? YamlRange<double>{0, 1} : YamlRange<double>{1, kAnyNumber};
      detector.limit = node.Require(drop ? "below" : "above").Double(range, 1);
      ParseClear(node, range, /*check=*/true, &detector);
      detector.min_z = node.Get("min_z").Double({0, 1000}, 0);
    } else if (name == "robust_z") {
      detector.kind = Detector::Kind::kRobustZ;
      ParseSide(node, {-1e6, 1e6}, /*outside=*/true, /*hysteresis=*/true, &detector);
      detector.log = node.Get("log").Bool(false);
    } else if (name == "cusum") {
      ParseCusum(node, &detector);
    } else if (name == "level_shift") {
      ParseLevelShift(node, &detector);
    } else if (name == "slope") {
      ParseSlope(node, &detector);
    } else if (name == "spike_budget") {
      ParseSpikeBudget(node, &detector);
    } else if (name == "continuity") {
      ParseContinuity(node, &detector);
    } else if (name == "non_finite") {
      ParseNonFinite(node, &detector);
    } else if (name == "hang") {
      ParseHang(node, &detector);
    } else if (name == "coverage") {
      ParseCoverage(node, &detector);
    } else if (name == "restarts") {
      ParseRestarts(node, &detector);
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

}  // namespace foreshock
