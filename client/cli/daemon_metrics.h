// What a daemon's /metrics says of the daemon itself: who is told of alerts, and whether that
// works.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "foreshock/credentials.h"

namespace foreshock::cli {

struct NotifierMetrics {
  std::string name;
  uint64_t told = 0;                // alerts, again ones too
  uint64_t refused = 0;             // alerts given up
  uint64_t pending = 0;             // alerts that wait to be told
  double oldest_pending_s = 0;      // how long the first of them has waited
  int64_t last_success_unix_s = 0;  // 0: never since the daemon started
  int64_t last_failure_unix_s = 0;
  std::vector<std::string>
      troubles{};  // what is wrong with its set-up, as docs/metrics.md names it

  enum class Health { kGood, kTrouble, kBad };
  // kBad: something has waited for more than five minutes, so a person may not know. kTrouble: the
  // newest message failed, or some were given up.
  Health health() const;
};

struct DaemonMetrics {
  uint64_t queue_items = 0;
  uint64_t queue_bytes = 0;
  uint64_t reports_refused = 0;
  uint64_t silences = 0;                     // in force
  std::vector<NotifierMetrics> notifiers{};  // by name
};

// From a page in Prometheus' text format. Families that are not there leave zeros; lines that are
// no samples are passed over.
DaemonMetrics ParseDaemonMetrics(absl::string_view page);

// Asks for /metrics at `address`. Errors: those of HttpGet; Unavailable for an answer that is no
// page of a foreshockd.
absl::StatusOr<DaemonMetrics> ReadDaemonMetrics(const std::string& address,
                                                const Credentials& credentials,
                                                absl::Duration timeout);

// "slack: 12 told, last 3 min ago", "slack: 2 waiting for 12 min, last failed 8 s ago".
std::string NotifierText(const NotifierMetrics& notifier, absl::Time now);

}  // namespace foreshock::cli
