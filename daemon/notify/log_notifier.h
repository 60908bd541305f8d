// Writes one line for each alert into the daemon's log.
#pragma once

#include "daemon/notify/notifier.h"

namespace foreshock::notify {

// Stateless.
class LogNotifier final : public Notifier {
 public:
  SendResult Send(const Message& message) override;
};

}  // namespace foreshock::notify
