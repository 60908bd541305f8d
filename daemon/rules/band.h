// What healthy looks like along a run: band files (docs/formats/band.md).
//
//   std::vector<std::string> errors;
//   const std::shared_ptr<const Band> band = Band::Parse("good.yaml", text, &errors);
//   const auto curve = band->Find(Input::Aggregate::kMean, {.indicator = "...", .layer = 3});
//   if (curve != nullptr) Compare(value, curve->At(step));
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "daemon/model/series.h"
#include "daemon/rules/rule.h"

namespace foreshock::rules {

class BandCurve {
 public:
  struct Point {
    double position = 0;  // steps or tokens
    Baseline baseline;
  };
  // At least one point, positions strictly increasing.
  explicit BandCurve(std::vector<Point> points) : points_(std::move(points)) {}

  // Interpolated linearly; the ends keep their values. O(log points).
  Baseline At(double position) const;

  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

// Immutable.
class Band {
 public:
  enum class Align : uint8_t { kStep, kTokens };

  // All or nothing: nullptr, and what is wrong where as `name`:line:column, one message each.
  static std::shared_ptr<const Band> Parse(absl::string_view name, absl::string_view text,
                                           std::vector<std::string>* errors);

  Align align() const { return align_; }
  // Of the text, within this process: tells whether a reload changed it.
  size_t fingerprint() const { return fingerprint_; }
  // nullptr if the band does not have the series. Series without units are found whatever the
  // aggregate: it is of one value.
  std::shared_ptr<const BandCurve> Find(Input::Aggregate aggregate,
                                        const model::SeriesKey& series) const;
  // Any layer and unit of the indicator?
  bool Has(Input::Aggregate aggregate, absl::string_view indicator) const;
  // Every series of the indicator, in their order.
  std::vector<std::pair<model::SeriesKey, std::shared_ptr<const BandCurve>>> Of(
      Input::Aggregate aggregate, absl::string_view indicator) const;

 private:
  using Key = std::pair<Input::Aggregate, model::SeriesKey>;

  Align align_ = Align::kStep;
  size_t fingerprint_ = 0;
  absl::flat_hash_map<Key, std::shared_ptr<const BandCurve>> curves_;
  absl::flat_hash_set<std::pair<Input::Aggregate, std::string>> indicators_;
};

}  // namespace foreshock::rules
