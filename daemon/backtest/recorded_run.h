// A run as what can be compared with another one: its curves, and the alerts that fired in it.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const RecordedRun run, ReadCaptureRun("a.fscap", rules, nullptr));
//   const Curve& loss = run.series.at({"train.loss", kNoLayer, Unit::kNone, 0, ""});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/backtest/steps.h"
#include "daemon/model/series.h"
#include "daemon/rules/rule_set.h"
#include "daemon/rules/trend.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::backtest {

// In step order, a step once: where attempts overlap, the newest attempt's value.
using Curve = std::vector<rules::TrendPoint>;

struct RecordedRun {
  std::string name;
  std::map<model::SeriesKey, Curve>
      series;                          // points that rules may judge (kFlagsNotJudged is without)
  std::map<int64_t, uint64_t> tokens;  // of a step; steps of which they are not known are not in it
  std::vector<v1::Alert> alerts;       // that fired, as they were at the end
};

// Points of all series of one run, at most; a longer run is refused, it has to be narrowed.
inline constexpr uint64_t kRecordedPointsMax = 40'000'000;

// Collects one run. Points come in the order of their steps within an attempt.
class RunRecorder {
 public:
  // `indicators`: only these, exact or as a prefix ending in '*'; empty: all.
  explicit RunRecorder(std::vector<std::string> indicators = {})
      : indicators_(std::move(indicators)) {}

  bool Wants(const std::string& indicator) const;
  // ResourceExhausted when there are too many points.
  absl::Status Add(const model::SeriesKey& key, int64_t step, double value, uint32_t flags);
  RecordedRun& run() { return run_; }
  // Puts the curves in order.
  RecordedRun Finish();

 private:
  const std::vector<std::string> indicators_;
  RecordedRun run_;
  uint64_t points_ = 0;
};

// A capture, computed and judged by the daemon's own code. `rules` nullptr: nothing is judged, and
// there are no alerts. Errors: as ReadCaptureSteps, ResourceExhausted for too many points.
absl::StatusOr<RecordedRun> ReadCaptureRun(const std::string& path,
                                           std::shared_ptr<const rules::RuleSet> rules,
                                           std::vector<std::string> indicators,
                                           const StepProgress& progress);

}  // namespace foreshock::backtest
