#include "daemon/notify/log_notifier.h"

#include "daemon/base/log.h"
#include "daemon/notify/text.h"

namespace foreshock {

SendResult LogNotifier::Send(const Message& message) {
  for (const auto& row : message.alerts) {
    const v1::Alert& alert = row->alert();
    const LogLevel level = message.kind != MessageKind::kFiring || alert.severity() == "info"
                               ? LogLevel::kInfo
                               : LogLevel::kWarning;
    const std::string reason =
        message.kind == MessageKind::kResolved ? EndReason(message, *row) : "";
    Log(level, "alert", AlertLine(alert, message.kind, reason), {{"id", alert.id()}});
  }
  return {};
}

}  // namespace foreshock
