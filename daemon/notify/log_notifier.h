// Writes one line per alert into the daemon's log.
#pragma once

#include <string>

#include "daemon/notify/notifier.h"

namespace foreshock {

// Stateless.
class LogNotifier final : public Notifier {
 public:
  absl::string_view name() const override { return "log"; }
  absl::Status Send(const v1::Alert& alert, NotificationKind kind) override;
};

// "FIRING critical exp-42 Delta2EntropyFalls at step 460 in layers 1, 2:
// attn.delta2.entropy_ratio_l1 0.61, baseline 0.78 (-21.8 %); probable fault
// low_precision_attention; last healthy step 400, roll back to checkpoint step-400; runbook
// https://..."
std::string AlertLine(const v1::Alert& alert, NotificationKind kind);

}  // namespace foreshock
