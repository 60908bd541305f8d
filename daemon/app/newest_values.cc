#include "daemon/app/newest_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"

namespace foreshock::app {
namespace {

// Most series have a point at every step, so only the others are looked for further back.
constexpr int64_t kLookBack[] = {512, 4096, kNewestValuesSteps};

// The units of a layer have their values at the same steps, and are shown together.
using Group = std::tuple<std::string, int32_t, model::Unit>;
Group GroupOf(const model::SeriesKey& key) { return {key.indicator, key.layer, key.unit}; }

struct Found {
  model::SeriesKey series{};
  model::Point point{};
};

// The newest point of each series in the range, if it has one.
absl::StatusOr<std::vector<Found>> NewestPoints(const store::Store& store, const std::string& run,
                                                const std::vector<model::SeriesKey>& series,
                                                const store::StepRange& range) {
  std::vector<std::optional<model::Point>> newest(series.size());
  FORESHOCK_RETURN_IF_ERROR(
      store.Points(run, series, range, [&newest](size_t i, const model::Point& point) {
        newest[i] = point;
        return true;
      }));
  std::vector<Found> found;
  for (size_t i = 0; i < series.size(); ++i) {
    if (newest[i].has_value()) found.push_back({series[i], *newest[i]});
  }
  return found;
}

// Adds the points to the steps that they lie at, and returns the step of each group.
std::map<Group, int64_t> AddNewest(const std::vector<Found>& found,
                                   std::map<int64_t, model::ClosedStep>* steps) {
  std::map<Group, int64_t> newest;
  for (const auto& [series, point] : found) {
    int64_t& step = newest.emplace(GroupOf(series), point.step).first->second;
    step = std::max(step, point.step);
  }
  for (const auto& [series, point] : found) {
    if (point.step != newest.at(GroupOf(series))) continue;  // the unit has left
    (*steps)[point.step].samples.push_back({series, point.value, point.flags});
  }
  return newest;
}

}  // namespace

absl::StatusOr<std::vector<model::ClosedStep>> NewestValues(const store::Store& store,
                                                            const std::string& run,
                                                            uint32_t attempt, int64_t last_step) {
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::SeriesKey> series, store.Series(run, {}));
  std::map<int64_t, model::ClosedStep> steps;
  steps[last_step];
  for (const int64_t look_back : kLookBack) {
    const store::StepRange range{.first = std::max<int64_t>(0, last_step - look_back + 1),
                                 .last = last_step,
                                 .attempt = attempt};
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<Found> found,
                               NewestPoints(store, run, series, range));
    const std::map<Group, int64_t> newest = AddNewest(found, &steps);
    std::erase_if(series, [&newest](const auto& key) { return newest.contains(GroupOf(key)); });
    if (series.empty() || range.first == 0) break;
  }
  std::vector<model::ClosedStep> result;
  for (auto& [step, closed] : steps) {
    closed.run = run;
    closed.row.attempt = attempt;
    closed.row.step = step;
    result.push_back(std::move(closed));
  }
  const store::StepRange last{.first = last_step, .last = last_step, .attempt = attempt};
  FORESHOCK_RETURN_IF_ERROR(store.Steps(run, last, [&result](const model::StepRow& row) {
    result.back().row = row;
    return true;
  }));
  return result;
}

}  // namespace foreshock::app
