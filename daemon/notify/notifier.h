// Something that tells people about an alert: the log now, and whoever else implements this.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock {

enum class NotificationKind { kFiring, kResolved };

// Called from one thread at a time.
class Notifier {
 public:
  virtual ~Notifier() = default;

  virtual absl::string_view name() const = 0;  // "log"; the label on metrics

  // Must be bounded in time. An error means that nobody was told; the dispatcher tries again at its
  // next turn.
  virtual absl::Status Send(const v1::Alert& alert, NotificationKind kind) = 0;
};

}  // namespace foreshock
