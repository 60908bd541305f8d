// The answers of the read API, from the store and the live state; gRPC and JSON are two faces of
// these functions.
//
//   Answers answers(&store, &live, backtest, explain);
//   FORESHOCK_ASSIGN_OR_RETURN(v1::GetRunResponse response, answers.GetRun(request));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/query/live_state.h"
#include "daemon/query/point_stream.h"
#include "daemon/store/store.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::query {

// What rules would have found in a stored run; `cancelled` says that nobody waits any more. Called
// from several threads at once. The application gives it: what judges lies above this module.
using BacktestFn = std::function<absl::StatusOr<v1::BacktestRulesResponse>(
    const v1::BacktestRulesRequest& request, const std::function<bool()>& cancelled)>;
// The same of what the rules in force see in a stored run.
using ExplainFn = std::function<absl::StatusOr<v1::ExplainResponse>(
    const v1::ExplainRequest& request, const std::function<bool()>& cancelled)>;

// Thread-safe. Errors everywhere: InvalidArgument with what is allowed, NotFound naming the runs or
// attempts there are, and what the store returns.
class Answers {
 public:
  static constexpr uint64_t kPointsDefault = 1'000'000;
  static constexpr uint64_t kPointsMax = 10'000'000;
  static constexpr uint32_t kSeriesDefault = 10'000;
  static constexpr uint32_t kSeriesMax = 1'000'000;
  static constexpr uint64_t kStepsDefault = 10'000;
  static constexpr uint64_t kStepsMax = 1'000'000;
  static constexpr uint32_t kAlertsDefault = 1'000;
  static constexpr uint32_t kAlertsMax = 100'000;

  Answers(const store::Store* store, const LiveState* live, BacktestFn backtest, ExplainFn explain)
      : store_(store), live_(live), backtest_(std::move(backtest)), explain_(std::move(explain)) {}

  absl::StatusOr<v1::ListRunsResponse> ListRuns(const v1::ListRunsRequest& request) const;
  absl::StatusOr<v1::GetRunResponse> GetRun(const v1::GetRunRequest& request) const;
  absl::StatusOr<v1::ListIndicatorsResponse> ListIndicators(
      const v1::ListIndicatorsRequest& request) const;
  absl::StatusOr<v1::ListSeriesResponse> ListSeries(const v1::ListSeriesRequest& request) const;
  absl::StatusOr<v1::ListStepsResponse> ListSteps(const v1::ListStepsRequest& request) const;
  absl::StatusOr<v1::ListAlertsResponse> ListAlerts(const v1::ListAlertsRequest& request) const;
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const v1::ListEventsRequest& request) const;
  absl::StatusOr<v1::ListSilencesResponse> ListSilences(
      const v1::ListSilencesRequest& request) const;
  absl::StatusOr<v1::ListRulesResponse> ListRules(const v1::ListRulesRequest& request) const;
  absl::StatusOr<v1::ListBandsResponse> ListBands(const v1::ListBandsRequest& request) const;
  absl::StatusOr<v1::GetStatusResponse> GetStatus(const v1::GetStatusRequest& request) const;

  // Made piece by piece, as the reader takes it.
  absl::StatusOr<std::unique_ptr<PointStream>> QueryPoints(
      const v1::QueryPointsRequest& request) const;

  // Takes seconds.
  absl::StatusOr<v1::BacktestRulesResponse> BacktestRules(
      const v1::BacktestRulesRequest& request, const std::function<bool()>& cancelled) const {
    return backtest_(request, cancelled);
  }
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request,
                                              const std::function<bool()>& cancelled) const {
    return explain_(request, cancelled);
  }

 private:
  absl::StatusOr<v1::Run> MakeRun(const model::RunRow& row) const;
  absl::StatusOr<model::RunRow> FindRun(const std::string& run) const;
  absl::StatusOr<std::vector<model::SeriesKey>> Select(const v1::SeriesSelector& selector) const;
  absl::StatusOr<store::StepRange> Range(const std::string& run, std::optional<int64_t> first,
                                         std::optional<int64_t> last,
                                         std::optional<uint32_t> attempt) const;
  // 1 where no series can have more than `buckets_max` points, or that is 0.
  absl::StatusOr<int64_t> BucketSteps(const std::string& run, const store::StepRange& range,
                                      uint64_t buckets_max) const;

  const store::Store* const store_;
  const LiveState* const live_;
  const BacktestFn backtest_;
  const ExplainFn explain_;
};

}  // namespace foreshock::query
