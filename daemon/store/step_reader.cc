#include "daemon/store/step_reader.h"

#include <map>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"

namespace foreshock {

absl::Status ReadClosedSteps(const Store& store, const std::string& run, const StepRange& range,
                             const std::function<bool(const ClosedStep&)>& visit) {
  std::map<int64_t, ClosedStep> steps;
  FORESHOCK_RETURN_IF_ERROR(store.Steps(run, range, [&](const StepRow& row) {
    ClosedStep& step = steps[row.step];
    step.run = run;
    step.row = row;
    return true;
  }));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<SeriesKey> all_series, store.Series(run, {}));
  for (const SeriesKey& series : all_series) {
    FORESHOCK_RETURN_IF_ERROR(store.Points(run, series, range, [&](const Point& point) {
      const auto step = steps.find(point.step);
      if (step != steps.end() && step->second.row.attempt == point.attempt) {
        step->second.samples.push_back({series, point.value, point.flags});
      }
      return true;
    }));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::EventRow> events, store.Events(run));
  for (const model::EventRow& row : events) {
    const auto step = steps.find(row.event().step());
    if (step != steps.end()) step->second.events.push_back(row.event());
  }
  for (const auto& [number, step] : steps) {
    if (!visit(step)) break;
  }
  return absl::OkStatus();
}

}  // namespace foreshock
