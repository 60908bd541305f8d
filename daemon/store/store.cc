#include "daemon/store/store.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace foreshock::store {
namespace {

template <typename T>
bool EmptyOrHas(const std::vector<T>& wanted, const T& value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

bool IndicatorMatches(absl::string_view pattern, absl::string_view id) {
  if (pattern.empty()) return true;
  if (!absl::EndsWith(pattern, "*")) return pattern == id;
  pattern.remove_suffix(1);
  return absl::StartsWith(id, pattern);
}

}  // namespace

bool StoreBatch::empty() const {
  return runs.empty() && attempts.empty() && ranks.empty() && reports.empty() &&
         settled_steps.empty() && steps.empty() && alerts.empty() && events.empty() &&
         coactivation.empty() && judging.empty() && !silences.has_value();
}

bool SeriesFilter::Matches(const model::SeriesKey& key) const {
  return IndicatorMatches(indicator, key.indicator) && EmptyOrHas(layers, key.layer) &&
         (!unit.has_value() || *unit == key.unit) && EmptyOrHas(unit_ids, key.unit_id) &&
         (unit_name.empty() || unit_name == key.unit_name);
}

}  // namespace foreshock::store
