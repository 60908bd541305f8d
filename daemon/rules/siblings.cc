#include "daemon/rules/siblings.h"

#include <algorithm>

namespace foreshock::rules {

Siblings::Key Siblings::KeyOf(const model::SeriesKey& series) {
  if (series.unit == model::Unit::kRank) return {series.unit, series.layer, ""};
  return {series.unit, series.unit_id, series.unit_name};
}

void Siblings::Add(const model::SeriesKey& series, double value) {
  if (!(value > 0)) return;
  Group& group = groups_[KeyOf(series)];
  group.values.push_back(value);
  group.sorted = false;
}

std::optional<double> Siblings::Ratio(const model::SeriesKey& series, double value) {
  const auto found = groups_.find(KeyOf(series));
  if (found == groups_.end() || found->second.values.size() <= kMin) return std::nullopt;
  std::vector<double>& values = found->second.values;
  if (!found->second.sorted) std::sort(values.begin(), values.end());
  found->second.sorted = true;
  const auto own = std::lower_bound(values.begin(), values.end(), value);
  if (own == values.end() || *own != value) return std::nullopt;
  const size_t at = static_cast<size_t>(own - values.begin());
  const auto other = [&](size_t i) { return values[i < at ? i : i + 1]; };
  const size_t others = values.size() - 1;
  return value / (0.5 * (other((others - 1) / 2) + other(others / 2)));
}

}  // namespace foreshock::rules
