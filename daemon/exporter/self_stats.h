// What /metrics says of the daemon itself; the application fills it at every scrape.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "daemon/exporter/latency_histogram.h"

namespace foreshock::exporter {

struct NotifierSelfStats {
  std::map<std::string, uint64_t> results;  // alerts by "sent", "failed", ...
  size_t pending = 0;                       // alerts that wait to be told
  double oldest_pending_s = 0;              // how long the first of them has waited
  int64_t last_success_unix_s = 0;          // 0: never
  int64_t last_failure_unix_s = 0;          // 0: never
  std::set<std::string> troubles;           // names of what is wrong with its set-up
};

struct RemoteWriteSelfStats {
  std::map<std::string, uint64_t> results;  // samples by "sent", "refused", "dropped"
  uint64_t retries = 0;
  size_t queue_samples = 0;
  size_t queue_bytes = 0;
  int64_t last_success_unix_s = 0;  // 0: never
};

struct SelfStats {
  std::string version;
  bool ready = false;
  bool draining = false;

  uint32_t streams = 0;  // open Push streams
  uint64_t reports_received = 0;
  uint64_t reports_committed = 0;
  uint64_t reports_duplicate = 0;
  uint64_t reports_recomputed = 0;                  // checked, not used
  uint64_t reports_late = 0;                        // merged into a step that had closed
  uint64_t reports_too_late = 0;                    // rejected: the step had closed too long ago
  uint64_t silent_ranks = 0;                        // no step waits for them
  std::map<std::string, uint64_t> reports_refused;  // by reason: "queue_full", "draining", ...
  uint64_t acks_sent = 0;
  uint64_t summaries_rejected = 0;
  uint64_t queue_items = 0;
  uint64_t queue_bytes = 0;
  std::map<std::string, uint64_t> limit_hits;  // by limit: "streams", "runs", ...

  LatencyHistogram::Values commit_latency;  // first report of a batch queued -> batch in the log
  uint64_t commit_failures = 0;
  uint64_t open_steps = 0;
  uint64_t open_step_bytes = 0;
  uint64_t snapshot_bytes = 0;  // weight snapshots kept for the next window
  uint64_t points_written = 0;

  uint64_t store_bytes = 0;
  uint64_t store_series = 0;
  bool store_writable = true;
  uint64_t store_damage = 0;
  uint64_t store_open_points = 0;
  uint64_t store_fold_failures = 0;
  uint64_t store_bytes_max = 0;  // the budget; 0: none
  uint64_t points_downsampled = 0;
  uint64_t points_dropped = 0;
  uint64_t runs_dropped = 0;

  uint32_t rules_loaded = 0;
  uint64_t rules_evaluated = 0;  // rule and step
  uint32_t alerts_firing = 0;
  std::map<std::string, NotifierSelfStats> notifiers;  // by name
  uint64_t silences = 0;                               // in force

  std::map<std::string, RemoteWriteSelfStats> remote_writes;  // by name

  bool config_last_reload_successful = true;
  int64_t config_last_reload_unix_s = 0;  // of the last good one; 0: none yet

  uint64_t http_requests = 0;
  uint64_t http_client_errors = 0;
  uint64_t http_server_errors = 0;
  uint64_t http_connections_refused = 0;

  std::map<std::string, uint64_t> access_refused;  // by reason: "no_token", ...

  int64_t tls_certificate_expires_unix_s = 0;  // 0: no TLS
  uint64_t tls_reload_failures = 0;
};

}  // namespace foreshock::exporter
