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
    Log(level, "alert", AlertLine(alert, message.kind), {{"id", alert.id()}});
  }
  return {};
}

}  // namespace foreshock
