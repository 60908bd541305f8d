#include "daemon/rules/band.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {
namespace {

constexpr int64_t kUnitIdMax = 1'000'000'000;
constexpr yaml::YamlRange<double> kNotNegative = {0, kAnyNumber};

// A series without units has one value whatever the aggregate.
Input::Aggregate Meant(Input::Aggregate aggregate, absl::string_view indicator) {
  const model::IndicatorInfo* info = InfoOf(indicator);
  return info != nullptr && info->unit == model::Unit::kNone ? Input::Aggregate::kEach : aggregate;
}

model::SeriesKey ParseSeriesKey(const yaml::YamlNode& node, Input::Aggregate aggregate) {
  model::SeriesKey key;
  const yaml::YamlNode indicator = node.Require("indicator");
  key.indicator = ParseIndicator(indicator);
  const yaml::YamlNode layer = node.Get("layer");
  if (layer.present()) key.layer = static_cast<int32_t>(layer.Int({0, 1'000'000}));

  const yaml::YamlNode unit = node.Get("unit");
  const yaml::YamlNode id = node.Get("unit_id");
  const yaml::YamlNode name = node.Get("unit_name");
  if (!unit.present()) {
    if (id.present()) id.Error("`unit_id` needs `unit`");
    if (name.present()) name.Error("`unit_name` needs `unit`");
    return key;
  }
  if (aggregate != Input::Aggregate::kEach) {
    unit.Error("`unit` is for `aggregate: each`; an aggregate is over all units");
  }
  const std::string word = unit.Word({"head", "expert", "projection", "rank", "tensor"}, "head");
  for (const model::Unit one : {model::Unit::kHead, model::Unit::kExpert, model::Unit::kProjection,
                                model::Unit::kRank, model::Unit::kTensor}) {
    if (word == model::UnitName(one)) key.unit = one;
  }
  if (key.unit == model::Unit::kTensor) {
    key.unit_name = node.Require("unit_name").String();
    if (id.present()) id.Error("a tensor has a `unit_name`, no `unit_id`");
  } else {
    key.unit_id = node.Require("unit_id").Int({0, kUnitIdMax});
    if (name.present()) name.Error("only a tensor has a `unit_name`");
  }
  return key;
}

std::vector<BandCurve::Point> ParsePoints(const yaml::YamlNode& node) {
  std::vector<BandCurve::Point> points;
  const std::vector<yaml::YamlNode> items = node.Items();
  if (node.is_list() && items.empty()) node.Error("no points; at least one is expected");
  for (const yaml::YamlNode& item : items) {
    const std::vector<yaml::YamlNode> numbers = item.Items();
    if (!item.is_list()) continue;
    if (numbers.size() != 3) {
      item.Error(absl::StrCat("a point has ", numbers.size(),
                              " numbers; [position, median, spread] is expected"));
      continue;
    }
    BandCurve::Point point;
    point.position = numbers[0].Double(kNotNegative);
    point.baseline.median = numbers[1].Double({-kAnyNumber, kAnyNumber});
    point.baseline.spread = numbers[2].Double(kNotNegative);
    if (!points.empty() && point.position <= points.back().position) {
      numbers[0].Error(absl::StrCat("the position ", point.position, " is not after ",
                                    points.back().position, "; positions increase"));
      continue;
    }
    points.push_back(point);
  }
  return points;
}

}  // namespace

Baseline BandCurve::At(double position) const {
  const auto after =
      std::partition_point(points_.begin(), points_.end(),
                           [position](const Point& point) { return point.position <= position; });
  if (after == points_.begin()) return points_.front().baseline;
  if (after == points_.end()) return points_.back().baseline;
  const Point& a = *std::prev(after);
  const Point& b = *after;
  const double share = (position - a.position) / (b.position - a.position);
  return {.median = (1 - share) * a.baseline.median + share * b.baseline.median,
          .spread = (1 - share) * a.baseline.spread + share * b.baseline.spread};
}

std::shared_ptr<const Band> Band::Parse(absl::string_view name, absl::string_view text,
                                        std::vector<std::string>* errors) {
  yaml::YamlDocument document(name, text);
  const yaml::YamlNode root = document.root();
  auto band = std::make_shared<Band>();
  band->fingerprint_ = absl::HashOf(text);
  root.Require("version").Int({1, 1}, 1);
  const std::string align = root.Require("align").Word({"step", "tokens"}, "step");
  band->align_ = align == "tokens" ? Align::kTokens : Align::kStep;
  root.Get("runs").Strings();

  const yaml::YamlNode series = root.Require("series");
  const std::vector<yaml::YamlNode> items = series.Items();
  if (series.is_list() && items.empty()) series.Error("no series; at least one is expected");
  for (const yaml::YamlNode& node : items) {
    const Input::Aggregate aggregate = ParseAggregate(node.Get("aggregate"));
    model::SeriesKey key = ParseSeriesKey(node, aggregate);
    std::vector<BandCurve::Point> points = ParsePoints(node.Require("points"));
    if (points.empty()) continue;
    const Input::Aggregate meant = Meant(aggregate, key.indicator);
    band->indicators_.emplace(meant, key.indicator);
    auto curve = std::make_shared<const BandCurve>(std::move(points));
    if (!band->curves_.emplace(Key(meant, std::move(key)), std::move(curve)).second) {
      node.Error("the same series again; indicator, aggregate, layer and unit tell series apart");
    }
  }

  const std::vector<std::string> found = document.errors();
  errors->insert(errors->end(), found.begin(), found.end());
  return found.empty() ? band : nullptr;
}

std::shared_ptr<const BandCurve> Band::Find(Input::Aggregate aggregate,
                                            const model::SeriesKey& series) const {
  const auto found = curves_.find(Key(Meant(aggregate, series.indicator), series));
  return found == curves_.end() ? nullptr : found->second;
}

std::vector<std::pair<model::SeriesKey, std::shared_ptr<const BandCurve>>> Band::Of(
    Input::Aggregate aggregate, absl::string_view indicator) const {
  std::vector<std::pair<model::SeriesKey, std::shared_ptr<const BandCurve>>> found;
  const Input::Aggregate meant = Meant(aggregate, indicator);
  for (const auto& [key, curve] : curves_) {
    if (key.first == meant && key.second.indicator == indicator)
      found.emplace_back(key.second, curve);
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return found;
}

bool Band::Has(Input::Aggregate aggregate, absl::string_view indicator) const {
  return indicators_.contains({Meant(aggregate, indicator), std::string(indicator)});
}

}  // namespace foreshock::rules
