// Detectors that look at the course of a series: what is written of them.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "daemon/rules/parse.h"

namespace foreshock {
namespace {

constexpr double kSpreadsMax = 1e6;
constexpr int kCourseSamplesMax = 10'000;  // that a series keeps beside its baseline

// Limits in spreads from a baseline: above it they are positive, below it negative.
void ParseSpreads(const YamlNode& node, Detector* detector) {
  ParseSide(node, {-kSpreadsMax, kSpreadsMax}, /*outside=*/true, detector);
  const bool below = detector->side == Detector::Side::kBelow;
  const YamlNode limit = node.Get(below                                      ? "below"
                                  : detector->side == Detector::Side::kAbove ? "above"
                                                                             : "outside");
  if (!limit.is_scalar()) return;
  if (below ? detector->limit >= 0 : detector->limit <= 0) {
    limit.Error(absl::StrCat("the limit is ", detector->limit,
                             ", in spreads from the baseline; it ",
                             below ? "must be less than 0" : "must be more than 0"));
  } else if (below ? detector->clear > 0 : detector->clear < 0) {
    node.Get("clear").Error(absl::StrCat("`clear` is ", detector->clear, ", beyond the baseline; ",
                                         below ? "at most 0" : "at least 0", " is allowed"));
  }
}

}  // namespace

void ParseCusum(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kCusum;
  ParseSpreads(node, detector);
  detector->log = node.Get("log").Bool(false);
  const YamlNode slack = node.Get("slack");
  detector->slack = slack.Double({0, kSpreadsMax}, 0.5);
  // A sample adds at most half of the limit.
  if (detector->limit != 0 && 2 * detector->slack >= std::abs(detector->limit)) {
    slack.Error(absl::StrCat("`slack` is ", detector->slack, " but the limit is ", detector->limit,
                             "; less than half of it is allowed, or no sample counts"));
  }
}

void ParseLevelShift(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kLevelShift;
  ParseSpreads(node, detector);
  detector->log = node.Get("log").Bool(false);
  detector->samples = static_cast<int>(node.Get("samples").Int({2, kCourseSamplesMax}, 20));
}

}  // namespace foreshock
