#include "daemon/notify/log_notifier.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/base/log.h"

namespace foreshock {
namespace {

constexpr int kLayersShown = 8;

std::string Where(const v1::Alert& alert) {
  std::string where;
  if (alert.all_layers()) {
    where = " in all layers";
  } else if (alert.layers_size() > 0) {
    const int shown = std::min(alert.layers_size(), kLayersShown);
    absl::StrAppend(&where, alert.layers_size() == 1 ? " in layer " : " in layers ",
                    absl::StrJoin(alert.layers().begin(), alert.layers().begin() + shown, ", "));
    if (shown < alert.layers_size()) {
      absl::StrAppend(&where, " and ", alert.layers_size() - shown, " more");
    }
  }
  if (alert.has_head()) absl::StrAppend(&where, " head ", alert.head());
  if (alert.has_rank()) absl::StrAppend(&where, " on rank ", alert.rank());
  if (!alert.unit_name().empty()) absl::StrAppend(&where, " of '", alert.unit_name(), "'");
  return where;
}

std::string What(const v1::Alert& alert) {
  if (alert.indicator().empty()) return "";
  std::string what = absl::StrFormat(": %s %.4g", alert.indicator(), alert.value());
  if (!alert.has_baseline()) return what;
  absl::StrAppendFormat(&what, ", baseline %.4g", alert.baseline());
  const double change = (alert.value() - alert.baseline()) / std::abs(alert.baseline());
  if (std::isfinite(change)) absl::StrAppendFormat(&what, " (%+.1f %%)", 100 * change);
  return what;
}

int64_t StepOf(const v1::Alert& alert, NotificationKind kind) {
  if (kind == NotificationKind::kResolved && alert.has_resolved_step()) {
    return alert.resolved_step();
  }
  return alert.has_firing_step() ? alert.firing_step() : alert.pending_step();
}

}  // namespace

std::string AlertLine(const v1::Alert& alert, NotificationKind kind) {
  std::string line = absl::StrCat(kind == NotificationKind::kFiring ? "FIRING " : "RESOLVED ",
                                  alert.severity(), " ", alert.run(), " ", alert.rule(),
                                  " at step ", StepOf(alert, kind), Where(alert), What(alert));
  if (!alert.fault().empty()) absl::StrAppend(&line, "; probable fault ", alert.fault());
  if (kind == NotificationKind::kFiring && alert.has_last_healthy_step()) {
    absl::StrAppend(&line, "; last healthy step ", alert.last_healthy_step());
    if (!alert.checkpoint().empty()) {
      absl::StrAppend(&line, ", roll back to checkpoint ", alert.checkpoint());
    }
  }
  if (!alert.runbook().empty()) absl::StrAppend(&line, "; runbook ", alert.runbook());
  return line;
}

absl::Status LogNotifier::Send(const v1::Alert& alert, NotificationKind kind) {
  const LogLevel level = kind == NotificationKind::kResolved || alert.severity() == "info"
                             ? LogLevel::kInfo
                             : LogLevel::kWarning;
  Log(level, "alert", AlertLine(alert, kind), {{"id", alert.id()}});
  return absl::OkStatus();
}

}  // namespace foreshock
