#include "client/cli/run_summary.h"

#include <limits>
#include <map>
#include <vector>

#include "client/cli/points.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/loss_break.h"

namespace foreshock::cli {
namespace {

// The loss of the live lineage by step. A loss that was not finite is no point of train.loss, but
// train.nonfinite counts it under the scalar's name.
absl::StatusOr<std::vector<rules::LossSample>> ReadLosses(Connection& daemon,
                                                          const std::string& run) {
  std::map<int64_t, double> losses;
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run(run);
  request.mutable_selector()->set_indicator("train.nonfinite");
  request.mutable_selector()->set_unit_name("loss");
  FORESHOCK_ASSIGN_OR_RETURN(const auto nonfinite, ReadPoints(daemon, request));
  for (const v1::QueryPointsResponse& answer : nonfinite) {
    for (const v1::Point& point : answer.points()) {
      losses[point.step()] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  request.mutable_selector()->set_indicator("train.loss");
  request.mutable_selector()->clear_unit_name();
  request.mutable_selector()->set_unit(v1::UNIT_NONE);  // not the losses of single ranks
  FORESHOCK_ASSIGN_OR_RETURN(const auto finite, ReadPoints(daemon, request));
  for (const v1::QueryPointsResponse& answer : finite) {
    for (const v1::Point& point : answer.points()) losses[point.step()] = point.value();
  }
  std::vector<rules::LossSample> samples;
  for (const auto& [step, loss] : losses) samples.push_back({step, loss});
  return samples;
}

void AskNotJudged(Connection& daemon, RunSummary* summary) {
  v1::ExplainRequest request;
  request.set_run(summary->run);
  v1::ExplainResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.query().Explain(context.get(), request, &response));
  if (!status.ok()) {
    summary->not_judged_unknown = std::string(status.message());
    return;
  }
  summary->not_judged_unknown = response.stopped();
  for (const v1::RuleJudging& rule : response.judging()) {
    if (rule.rows() == 0) summary->not_judged.push_back(rule);
  }
}

// Whether `a` is the better "first warning": earlier, and of equals the one that names a fault.
bool Earlier(const v1::Alert& a, const v1::Alert& b) {
  if (a.firing_step() != b.firing_step()) return a.firing_step() < b.firing_step();
  const auto named = [](const v1::Alert& alert) {
    return !alert.fault().empty() && alert.fault() != "unknown";
  };
  return named(a) && !named(b);
}

}  // namespace

std::optional<int64_t> RunSummary::lead_steps() const {
  if (!first_warning || !loss_break_step) return std::nullopt;
  return *loss_break_step - first_warning->firing_step();
}

absl::StatusOr<RunSummary> Summarise(Connection& daemon, const std::string& run) {
  RunSummary summary;
  summary.run = run;
  {
    v1::GetRunRequest request;
    request.set_run(run);
    v1::GetRunResponse response;
    const auto context = daemon.Context();
    FORESHOCK_RETURN_IF_ERROR(FromGrpc(daemon.query().GetRun(context.get(), request, &response)));
    if (response.run().has_last_step()) summary.last_step = response.run().last_step();
    if (!response.run().attempts().empty() && response.run().attempts().rbegin()->has_judged()) {
      summary.judged = response.run().attempts().rbegin()->judged();
    }
  }
  v1::ListAlertsRequest request;
  request.set_run(run);
  v1::ListAlertsResponse response;
  const auto context = daemon.Context();
  FORESHOCK_RETURN_IF_ERROR(FromGrpc(daemon.query().ListAlerts(context.get(), request, &response)));
  for (const v1::Alert& alert : response.alerts()) {
    if (!alert.has_firing_step() || alert.severity() == "info") continue;
    if (!summary.first_warning || Earlier(alert, *summary.first_warning)) {
      summary.first_warning = alert;
    }
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<rules::LossSample> losses, ReadLosses(daemon, run));
  summary.loss_break_step = rules::LossBreakStep(losses);
  if (summary.last_step.has_value()) AskNotJudged(daemon, &summary);
  return summary;
}

}  // namespace foreshock::cli
