#include "daemon/notify/log_notifier.h"

#include "daemon/base/log.h"
#include "daemon/notify/text.h"

namespace foreshock::notify {

SendResult LogNotifier::Send(const Message& message) {
  for (const auto& row : message.alerts) {
    const v1::Alert& alert = row->alert();
    const base::LogLevel level = message.kind != MessageKind::kFiring || alert.severity() == "info"
                                     ? base::LogLevel::kInfo
                                     : base::LogLevel::kWarning;
    const std::string reason =
        message.kind == MessageKind::kResolved ? EndReason(message, *row) : "";
    base::Log(level, "alert", AlertLine(alert, message.kind, reason), {{"id", alert.id()}});
  }
  return {};
}

}  // namespace foreshock::notify
