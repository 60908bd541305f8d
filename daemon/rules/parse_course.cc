// Detectors that look at the course of a series: what is written of them.

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/trend.h"

namespace foreshock {
namespace {

constexpr double kSpreadsMax = 1e6;
constexpr int kCourseSamplesMax = 10'000;  // that a series keeps beside its baseline
constexpr int kTrendSamplesMax = 200;      // 19 900 pairs

// Limits in spreads from a baseline: above it they are positive, below it negative.
void ParseSpreads(const YamlNode& node, bool hysteresis, Detector* detector) {
  ParseSide(node, {-kSpreadsMax, kSpreadsMax}, /*outside=*/true, hysteresis, detector);
  const bool below = detector->side == Detector::Side::kBelow;
  const YamlNode limit = node.Get(below                                      ? "below"
                                  : detector->side == Detector::Side::kAbove ? "above"
                                                                             : "outside");
  if (!limit.is_scalar()) return;
  if (below ? detector->limit >= 0 : detector->limit <= 0) {
    limit.Error(absl::StrCat("the limit is ", detector->limit,
                             ", in spreads from the baseline; it ",
                             below ? "must be less than 0" : "must be more than 0"));
  } else if (hysteresis && (below ? detector->clear > 0 : detector->clear < 0)) {
    node.Get("clear").Error(absl::StrCat("`clear` is ", detector->clear, ", beyond the baseline; ",
                                         below ? "at most 0" : "at least 0", " is allowed"));
  }
}

// A length that counts steps, at least one.
int64_t ParseSteps(const YamlNode& node, int64_t fallback) {
  const Length length = ParseLength(node, {.count = fallback});
  if (length.in_samples || length.count < 1) {
    node.Error("a length in steps is expected, at least 1, for example \"500 steps\"");
    return fallback;
  }
  return length.count;
}

// "3%", more than 0 and less than 100.
double ParsePercent(const YamlNode& node, double fallback) {
  if (!node.present()) return fallback;
  const std::string text = node.String();
  double percent = 0;
  if (absl::EndsWith(text, "%") &&
      absl::SimpleAtod(absl::string_view(text).substr(0, text.size() - 1), &percent) &&
      percent >= 0 && percent < 100) {
    return percent / 100;
  }
  if (node.is_scalar()) {
    node.Error(absl::StrCat("the share ", text,
                            " is not allowed; a percentage from 0% to less than 100%, such as 3%"));
  }
  return fallback;
}

}  // namespace

void ParseCusum(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kCusum;
  ParseSpreads(node, /*hysteresis=*/true, detector);
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
  ParseSpreads(node, /*hysteresis=*/true, detector);
  detector->log = node.Get("log").Bool(false);
  detector->samples = static_cast<int>(node.Get("samples").Int({2, kCourseSamplesMax}, 20));
}

void ParseSlope(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kSlope;
  const YamlNode will_cross = node.Get("will_cross");
  const YamlNode above = node.Get("above");
  const YamlNode below = node.Get("below");
  const YamlNode per = node.Get("per");
  const YamlNode within = node.Get("within");
  const YamlNode clear = node.Get("clear");
  detector->will_cross = will_cross.present();
  if (detector->will_cross) {
    for (const YamlNode& other : {above, below, per, clear}) {
      if (!other.present()) continue;
      other.Error(
          "not allowed beside `will_cross`, whose direction says which trend counts; its limits, "
          "`above` or `below` and `clear`, are of the value itself");
    }
    ParseSide(will_cross, {-kAnyNumber, kAnyNumber}, /*outside=*/false, /*hysteresis=*/true,
              detector);
    detector->within = {.count = ParseSteps(node.Require("within"), 1)};
  } else {
    ParseSide(node, {-kAnyNumber, kAnyNumber}, /*outside=*/false, /*hysteresis=*/true, detector);
    const YamlNode& limit = above.present() ? above : below;
    if (above.present() ? detector->limit < 0 : detector->limit > 0) {
      limit.Error(absl::StrCat("the limit is ", detector->limit,
                               above.present()
                                   ? ", which level and falling series pass too; at least 0"
                                   : ", which level and rising series pass too; at most 0",
                               " is allowed"));
    }
    detector->per_steps = static_cast<double>(ParseSteps(per, 1000));
    if (within.present()) within.Error("`within` needs `will_cross`");
  }

  const YamlNode samples = node.Get("samples");
  detector->samples = static_cast<int>(samples.Int({3, kTrendSamplesMax}, 30));
  const YamlNode min_samples = node.Get("min_samples");
  detector->min_samples =
      static_cast<int>(min_samples.Int({3, kTrendSamplesMax}, std::min(10, detector->samples)));
  if (detector->min_samples > detector->samples) {
    min_samples.Error(absl::StrCat("`min_samples` is ", detector->min_samples, " but `samples` is ",
                                   detector->samples, "; at most that many are there"));
  }
  const YamlNode min_z = node.Get("min_z");
  detector->min_z = min_z.Double({0, 100}, 3);
  const double largest = LargestMannKendallZ(detector->samples);
  if (detector->min_z > largest) {
    (min_z.present()     ? min_z
     : samples.present() ? samples
                         : node)
        .Error(absl::StrFormat("`min_z` is %g, but no trend of %d samples has more than %.2f; take "
                               "more samples, or a smaller `min_z`",
                               detector->min_z, detector->samples, largest));
  }
}

void ParseSpikeBudget(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kSpikeBudget;
  Detector spike;
  const YamlNode map = node.Require("spike");
  if (map.present()) {
    ParseSpreads(map, /*hysteresis=*/false, &spike);
    detector->log = map.Get("log").Bool(false);
  }
  detector->spike_side = spike.side;
  detector->spike_limit = spike.limit;

  detector->side = Detector::Side::kAbove;
  const YamlNode share = node.Require("share");
  detector->limit = ParsePercent(share, 0.03);
  const YamlNode clear = node.Get("clear");
  detector->clear = ParsePercent(clear, detector->limit);
  if (detector->clear > detector->limit) {
    clear.Error(absl::StrFormat("`clear` is %g%% but the share is %g%%; at most that is allowed",
                                100 * detector->clear, 100 * detector->limit));
  }
  const YamlNode of = node.Get("of");
  const Length length = ParseLength(of, {.count = 100, .in_samples = true});
  if (!length.in_samples || length.count < 2 || length.count > kCourseSamplesMax) {
    of.Error(absl::StrCat("`of` is a length in samples, from 2 to ", kCourseSamplesMax,
                          ", for example \"100 samples\""));
    return;
  }
  detector->samples = static_cast<int>(length.count);
  if (detector->limit > 0 && detector->limit * detector->samples < 1) {
    const int needed = static_cast<int>(std::ceil(1 / detector->limit));
    (of.present() ? of : share)
        .Error(
            absl::StrFormat("%g%% of %d samples is less than one sample; at least %d samples, or "
                            "a larger share",
                            100 * detector->limit, detector->samples, needed));
  }
}

void ParseContinuity(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kContinuity;
  detector->side = Detector::Side::kOutside;
  detector->limit = node.Require("outside").Double({0, kAnyNumber}, 0.05);
  const YamlNode clear = node.Get("clear");
  detector->clear = clear.Double({0, kAnyNumber}, detector->limit);
  if (detector->clear > detector->limit) {
    clear.Error(absl::StrCat("`clear` is ", detector->clear, " but the limit is ", detector->limit,
                             "; it must lie on the healthy side, at most ", detector->limit));
  }
  detector->min_z = node.Get("min_z").Double({0, 1000}, 3);
  const YamlNode within = node.Get("within");
  detector->within = ParseLength(within, {.count = 50});
  if (detector->within.count < 1) within.Error("`within` is 0; at least one step or sample");
  detector->samples = static_cast<int>(node.Get("samples").Int({2, kCourseSamplesMax}, 1000));
}

}  // namespace foreshock
