#include "daemon/store/step_reader.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"

namespace foreshock::store {
namespace {

constexpr size_t kBlockSteps = 1024;

using Steps = std::map<int64_t, model::ClosedStep>;

absl::Status AddPoints(const Store& store, const std::string& run, StepRange range,
                       const std::vector<model::SeriesKey>& all_series, Steps* steps) {
  range.first = steps->begin()->first;
  range.last = steps->rbegin()->first;
  return store.Points(run, all_series, range, [&](size_t series, const model::Point& point) {
    const auto step = steps->find(point.step);
    if (step != steps->end() && step->second.row.attempt == point.attempt) {
      step->second.samples.push_back({all_series[series], point.value, point.flags});
    }
    return true;
  });
}

}  // namespace

absl::Status ReadClosedSteps(const Store& store, const std::string& run, const StepRange& range,
                             const std::function<bool(const model::ClosedStep&)>& visit,
                             const std::function<bool(const model::SeriesKey&)>& wanted) {
  std::map<int64_t, model::StepRow> rows;
  FORESHOCK_RETURN_IF_ERROR(store.Steps(run, range, [&rows](const model::StepRow& row) {
    rows[row.step] = row;
    return true;
  }));
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::SeriesKey> all_series, store.Series(run, {}));
  if (wanted != nullptr) {
    std::erase_if(all_series,
                  [&wanted](const model::SeriesKey& series) { return !wanted(series); });
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::EventRow> event_rows, store.Events(run));
  // By the (attempt, step) from which they hold.
  std::multimap<std::pair<uint32_t, int64_t>, v1::Event> events;
  for (const model::EventRow& row : event_rows) {
    if (row.waits()) continue;
    const bool told = row.has_in_force_step();
    events.emplace(std::pair(told ? row.in_force_attempt() : row.attempt(),
                             told ? row.in_force_step() : row.event().step()),
                   row.event());
  }

  Steps block;
  for (auto row = rows.begin(); row != rows.end();) {
    block.clear();
    for (; row != rows.end() && block.size() < kBlockSteps; ++row) {
      model::ClosedStep& step = block[row->first];
      step.run = run;
      step.row = row->second;
      const auto [first, last] = events.equal_range({row->second.attempt, row->first});
      for (auto event = first; event != last; ++event) step.events.push_back(event->second);
    }
    FORESHOCK_RETURN_IF_ERROR(AddPoints(store, run, range, all_series, &block));
    for (const auto& [number, step] : block) {
      if (!visit(step)) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

}  // namespace foreshock::store
