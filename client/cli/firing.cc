#include "client/cli/firing.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

constexpr uint32_t kFiringRead = 100'000;  // the most that a daemon answers

}  // namespace

int Gravity(const std::string& severity) {
  return severity == "critical" ? 3 : severity == "warning" ? 2 : severity == "info" ? 1 : 0;
}

Style SeverityStyle(const std::string& severity) {
  const int gravity = Gravity(severity);
  return gravity == 3   ? Style::kRedBold
         : gravity == 2 ? Style::kYellowBold
         : gravity == 1 ? Style::kCyan
                        : Style::kPlain;
}

std::map<std::string, FiringCounts> CountFiring(
    const google::protobuf::RepeatedPtrField<v1::Alert>& alerts) {
  std::map<std::string, FiringCounts> by_run;
  for (const v1::Alert& alert : alerts) {
    if (alert.state() != v1::ALERT_STATE_FIRING) continue;
    FiringCounts& counts = by_run[alert.run()];
    const int gravity = Gravity(alert.severity());
    ++(gravity == 3 ? counts.critical : gravity == 2 ? counts.warning : counts.info);
  }
  return by_run;
}

absl::StatusOr<std::map<std::string, FiringCounts>> ReadFiring(Connection& daemon,
                                                               const std::string& run) {
  v1::ListAlertsRequest request;
  request.set_run(run);
  request.set_state(v1::ALERT_STATE_FIRING);
  request.set_limit(kFiringRead);
  v1::ListAlertsResponse response;
  FORESHOCK_RETURN_IF_ERROR(
      FromGrpc(daemon.query().ListAlerts(daemon.Context().get(), request, &response)));
  return CountFiring(response.alerts());
}

std::string FiringText(const FiringCounts& counts) {
  const Style style = counts.critical > 0  ? Style::kRedBold
                      : counts.warning > 0 ? Style::kYellowBold
                                           : Style::kPlain;
  return Painted(style, absl::StrCat(counts.critical + counts.warning));
}

}  // namespace foreshock::cli
