// One look of `foreshock top` at a daemon.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/connection.h"
#include "client/cli/daemon_metrics.h"
#include "client/cli/firing.h"
#include "client/cli/headlines.h"

namespace foreshock::cli {

struct TopRun {
  v1::Run run{};
  std::optional<double> steps_per_s{};  // since the look before; absent in the first one
  std::vector<double> losses{};         // of the newest kTopLossSteps steps, in buckets
  std::optional<double> loss{};         // the newest one
  FiringCounts firing{};
};

// One indicator in one layer, as the mean over its heads.
struct TopCell {
  std::optional<double> value{};           // the newest
  std::optional<double> median{};          // of the steps before
  std::string severity{};                  // of the gravest alert that fires here; empty: none
  std::optional<double> alert_baseline{};  // of that alert

  // What the value is held against.
  std::optional<double> baseline() const { return alert_baseline ? alert_baseline : median; }
};

struct TopLayer {
  int64_t layer = 0;
  std::vector<TopCell> cells{};  // one per column of TopData::columns
};

struct TopData {
  absl::Time at{};         // time of day
  absl::Time steady_at{};  // of SteadyNow()
  std::string server{};
  v1::GetStatusResponse status{};
  std::optional<double> reports_per_s{};
  std::vector<TopRun> runs{};       // newest first
  std::vector<v1::Alert> alerts{};  // firing first, then the gravest, then newest
  absl::StatusOr<DaemonMetrics> metrics = absl::UnknownError("not asked");
  // Of the run that was asked for:
  std::string run{};
  std::vector<Headline> columns{};  // indicators by layer that it has
  std::vector<TopLayer> layers{};
  std::vector<v1::Alert> run_alerts{};
};

inline constexpr int64_t kTopLossSteps = 1024;
inline constexpr int64_t kTopLayerSteps = 2048;  // that a layer's median looks back

struct TopWanted {
  std::vector<std::string> runs{};  // whose losses are to be read
  std::string run{};                // whose layers; empty: none
};

// What `count` first runs a first look wants.
inline constexpr size_t kTopRunsFirst = 40;

// Looks again and again, over one connection that is made anew after a failure. Keeps what has not
// changed: a run that makes no step is not read again. Thread-compatible.
class TopFeed {
 public:
  TopFeed(Settings settings, std::string http_address)
      : settings_(std::move(settings)), http_address_(std::move(http_address)) {}

  absl::StatusOr<std::shared_ptr<const TopData>> Look(const TopWanted& wanted);

 private:
  absl::StatusOr<TopData> LookOnce(const TopWanted& wanted);
  void Compare(TopData* data) const;
  absl::Status ReadLosses(TopRun* run);
  absl::Status ReadLayers(const TopRun& run, TopData* data);

  const Settings settings_;
  const std::string http_address_;
  std::unique_ptr<Connection> daemon_;
  std::shared_ptr<const TopData> before_;
};

// The median over all but the newest quarter of `means` (by step); absent for fewer than 4.
std::optional<double> TrailingMedian(const std::vector<double>& means);

// Puts the gravest of `alerts` that fires upon each cell of its indicator and layers.
void ApplyAlerts(const std::vector<v1::Alert>& alerts, const std::vector<Headline>& columns,
                 std::vector<TopLayer>* layers);

}  // namespace foreshock::cli
