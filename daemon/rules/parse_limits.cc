// The limits of detectors.

#include "absl/strings/str_cat.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {

void ParseClear(const yaml::YamlNode& node, yaml::YamlRange<double> range, bool check,
                Limits* limits) {
  const yaml::YamlNode clear = node.Get("clear");
  limits->clear = clear.Double(range, limits->limit);
  if (!check || !clear.present()) return;
  const bool below = limits->side == Side::kBelow;
  if (below ? limits->clear < limits->limit : limits->clear > limits->limit) {
    clear.Error(absl::StrCat("`clear` is ", limits->clear, " but the limit is ", limits->limit,
                             "; it must lie on the healthy side, at ", below ? "least " : "most ",
                             limits->limit));
  }
}

Limits ParseLimits(const yaml::YamlNode& node, yaml::YamlRange<double> range,
                   const LimitKeys& keys) {
  struct Choice {
    absl::string_view key;
    Side side;
  };
  static constexpr Choice kChoices[] = {
      {"above", Side::kAbove}, {"below", Side::kBelow}, {"outside", Side::kOutside}};
  Limits limits{.scale = keys.scale};
  int given = 0;
  for (const Choice& choice : kChoices) {
    if (choice.side == Side::kOutside && !keys.outside) continue;
    const yaml::YamlNode limit = node.Get(choice.key);
    if (!limit.present()) continue;
    ++given;
    limits.side = choice.side;
    limits.limit = limit.Double(
        choice.side == Side::kOutside ? yaml::YamlRange<double>{0, kAnyNumber} : range);
  }
  const absl::string_view names = keys.outside ? "above, below, outside" : "above, below";
  if (given != 1) {
    node.Error(absl::StrCat(given, " limits are given; exactly one of ", names, " is expected"));
  }
  limits.clear = limits.limit;
  if (keys.hysteresis) ParseClear(node, range, /*check=*/given == 1, &limits);
  return limits;
}

Limits ParseSpreads(const yaml::YamlNode& node, bool hysteresis) {
  const Limits limits =
      ParseLimits(node, {-kSpreadsMax, kSpreadsMax},
                  {.outside = true, .hysteresis = hysteresis, .scale = Limits::Scale::kDistance});
  const bool below = limits.side == Side::kBelow;
  const yaml::YamlNode limit = node.Get(below                         ? "below"
                                        : limits.side == Side::kAbove ? "above"
                                                                      : "outside");
  if (!limit.is_scalar()) return limits;
  if (below ? limits.limit >= 0 : limits.limit <= 0) {
    limit.Error(absl::StrCat("the limit is ", limits.limit, ", in spreads from the baseline; it ",
                             below ? "must be less than 0" : "must be more than 0"));
  } else if (hysteresis && (below ? limits.clear > 0 : limits.clear < 0)) {
    node.Get("clear").Error(absl::StrCat("`clear` is ", limits.clear, ", beyond the baseline; ",
                                         below ? "at most 0" : "at least 0", " is allowed"));
  }
  return limits;
}

}  // namespace foreshock::rules
