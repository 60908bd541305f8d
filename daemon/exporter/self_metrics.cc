#include "daemon/exporter/self_metrics.h"

namespace foreshock::exporter::internal {
namespace {

void AddIngest(const SelfStats& self, Families* families) {
  families->Gauge("foreshock_streams", "Open push streams", {}, self.streams);
  families->Counter("foreshock_reports_received_total", "Reports read from streams", {},
                    self.reports_received);
  families->Counter("foreshock_reports_committed_total", "Reports in the write-ahead log", {},
                    self.reports_committed);
  families->Counter("foreshock_reports_duplicate_total",
                    "Reports that had been committed before and were not stored again", {},
                    self.reports_duplicate);
  families->Counter("foreshock_reports_recomputed_total",
                    "Reports of a recomputed forward: checked, not used", {},
                    self.reports_recomputed);
  families->Counter("foreshock_reports_late_total", "Reports merged into a step that had closed",
                    {}, self.reports_late);
  families->Counter("foreshock_reports_too_late_total",
                    "Reports rejected because their step had closed too long ago", {},
                    self.reports_too_late);
  families->Gauge("foreshock_silent_ranks",
                  "Ranks that fell silent: no step waits for them until they speak again", {},
                  static_cast<double>(self.silent_ranks));
  for (const auto& [reason, count] : self.reports_refused) {
    families->Counter("foreshock_reports_refused_total", "Reports that were not taken",
                      {{"reason", reason}}, count);
  }
  families->Counter("foreshock_acks_sent_total", "Acks sent", {}, self.acks_sent);
  families->Counter("foreshock_summaries_rejected_total",
                    "Summaries rejected one by one; the rest of their report stood", {},
                    self.summaries_rejected);
  families->Gauge("foreshock_queue_items", "Reports waiting for commit", {},
                  static_cast<double>(self.queue_items));
  families->Gauge("foreshock_queue_bytes", "Bytes waiting for commit", {},
                  static_cast<double>(self.queue_bytes));
  for (const auto& [limit, count] : self.limit_hits) {
    families->Counter("foreshock_limit_hits_total", "Times a configured limit was hit",
                      {{"limit", limit}}, count);
  }
}

void AddStore(const SelfStats& self, Families* families) {
  families->Histogram("foreshock_commit_duration_seconds",
                      "From the first report of a batch queued to the batch in the log",
                      self.commit_latency);
  families->Counter("foreshock_commit_failures_total", "Batches the store did not take", {},
                    self.commit_failures);
  families->Gauge("foreshock_open_steps", "Steps that have not closed", {},
                  static_cast<double>(self.open_steps));
  families->Gauge("foreshock_open_step_bytes", "Statistics of open steps", {},
                  static_cast<double>(self.open_step_bytes));
  families->Gauge("foreshock_weight_snapshot_bytes",
                  "Weight snapshots kept in memory for the next window", {},
                  static_cast<double>(self.snapshot_bytes));
  families->Counter("foreshock_points_written_total", "Points stored", {}, self.points_written);
  families->Gauge("foreshock_store_bytes", "Size of the store on disk", {},
                  static_cast<double>(self.store_bytes));
  families->Gauge("foreshock_store_series", "Series in the store", {},
                  static_cast<double>(self.store_series));
  families->Gauge("foreshock_store_writable",
                  "0 while the store takes no writes (disk full, read-only or failing)", {},
                  self.store_writable ? 1 : 0);
  families->Counter("foreshock_store_damage_total",
                    "Times that the store met what the medium has damaged, since the start", {},
                    self.store_damage);
  families->Gauge("foreshock_store_open_points",
                  "Points that are written and not in chunks yet, of all runs", {},
                  static_cast<double>(self.store_open_points));
  families->Counter("foreshock_store_fold_failures_total",
                    "Times that putting closed steps into chunks failed and is to be tried again",
                    {}, self.store_fold_failures);
  families->Gauge("foreshock_store_bytes_max",
                  "What retention keeps the store under (retention.bytes_max); 0: no limit", {},
                  static_cast<double>(self.store_bytes_max));
  families->Counter("foreshock_retention_points_downsampled_total",
                    "Points that retention has made coarser", {}, self.points_downsampled);
  families->Counter("foreshock_retention_points_dropped_total",
                    "Points that retention has dropped, without those of whole runs", {},
                    self.points_dropped);
  families->Counter("foreshock_retention_runs_dropped_total",
                    "Runs whose points, or all of which, retention has dropped", {},
                    self.runs_dropped);
}

void AddRules(const SelfStats& self, Families* families) {
  families->Gauge("foreshock_rules_loaded", "Rules and signatures in force", {}, self.rules_loaded);
  families->Counter("foreshock_rules_evaluated_total", "Rules judged, once per rule and step", {},
                    self.rules_evaluated);
  families->Gauge("foreshock_alerts_firing", "Alerts that fire, over all runs", {},
                  self.alerts_firing);
  families->Gauge("foreshock_silences", "Silences in force: nobody is told of what they match", {},
                  static_cast<double>(self.silences));
  for (const auto& [notifier, stats] : self.notifiers) {
    for (const auto& [result, count] : stats.results) {
      families->Counter("foreshock_notifications_total", "Alerts told, by notifier and result",
                        {{"notifier", notifier}, {"result", result}}, count);
    }
    families->Gauge("foreshock_notifications_pending", "Alerts that wait to be told",
                    {{"notifier", notifier}}, static_cast<double>(stats.pending));
    families->Gauge("foreshock_notifications_oldest_pending_seconds",
                    "How long the first of the alerts that wait has waited",
                    {{"notifier", notifier}}, stats.oldest_pending_s);
    for (const std::string& trouble : stats.troubles) {
      families->Gauge(
          "foreshock_notifications_trouble",
          "1 while something is wrong with the set-up of a receiver that takes messages",
          {{"notifier", notifier}, {"trouble", trouble}}, 1);
    }
    if (stats.last_success_unix_s != 0) {
      families->Gauge("foreshock_notifications_last_success_timestamp_seconds",
                      "When the receiver last took a message", {{"notifier", notifier}},
                      static_cast<double>(stats.last_success_unix_s));
    }
    if (stats.last_failure_unix_s != 0) {
      families->Gauge("foreshock_notifications_last_failure_timestamp_seconds",
                      "When the receiver last did not take a message", {{"notifier", notifier}},
                      static_cast<double>(stats.last_failure_unix_s));
    }
  }
}

void AddRemoteWrites(const SelfStats& self, Families* families) {
  for (const auto& [remote, stats] : self.remote_writes) {
    for (const auto& [result, count] : stats.results) {
      families->Counter("foreshock_remote_write_samples_total",
                        "Samples pushed, by receiver and what became of them",
                        {{"remote", remote}, {"result", result}}, static_cast<double>(count));
    }
    families->Counter("foreshock_remote_write_retries_total",
                      "Requests that have to be sent again because the receiver did not take them",
                      {{"remote", remote}}, static_cast<double>(stats.retries));
    families->Gauge("foreshock_remote_write_queue_samples", "Samples that wait to be pushed",
                    {{"remote", remote}}, static_cast<double>(stats.queue_samples));
    families->Gauge("foreshock_remote_write_queue_bytes", "Compressed bytes that wait to be pushed",
                    {{"remote", remote}}, static_cast<double>(stats.queue_bytes));
    if (stats.last_success_unix_s != 0) {
      families->Gauge("foreshock_remote_write_last_success_timestamp_seconds",
                      "When the receiver last took samples", {{"remote", remote}},
                      static_cast<double>(stats.last_success_unix_s));
    }
  }
}

void AddHttp(const SelfStats& self, Families* families) {
  families->Counter("foreshock_http_requests_total", "HTTP requests answered", {},
                    self.http_requests);
  const char* errors_help = "HTTP requests answered with an error";
  families->Counter("foreshock_http_errors_total", errors_help, {{"class", "4xx"}},
                    self.http_client_errors);
  families->Counter("foreshock_http_errors_total", errors_help, {{"class", "5xx"}},
                    self.http_server_errors);
  families->Counter("foreshock_http_connections_refused_total",
                    "HTTP connections refused because too many waited", {},
                    self.http_connections_refused);
}

void AddSecurity(const SelfStats& self, Families* families) {
  for (const auto& [reason, count] : self.access_refused) {
    families->Counter("foreshock_access_refused_total",
                      "Calls and requests that were not allowed, by reason", {{"reason", reason}},
                      count);
  }
  if (self.tls_certificate_expires_unix_s == 0) return;
  families->Gauge("foreshock_tls_certificate_expiry_timestamp_seconds",
                  "When the daemon's own certificate expires", {},
                  static_cast<double>(self.tls_certificate_expires_unix_s));
  families->Counter("foreshock_tls_reload_failures_total",
                    "Changes of the certificate files that could not be taken", {},
                    self.tls_reload_failures);
}

}  // namespace

void AddSelf(const SelfStats& self, Families* families) {
  families->Gauge("foreshock_build_info", "1; the label says the version",
                  {{"version", self.version}}, 1);
  families->Gauge("foreshock_ready", "1 when able to serve", {}, self.ready ? 1 : 0);
  families->Gauge("foreshock_draining", "1 while shutting down", {}, self.draining ? 1 : 0);
  families->Gauge("foreshock_config_last_reload_successful",
                  "0 while an older configuration is in force because the last reload failed", {},
                  self.config_last_reload_successful ? 1 : 0);
  if (self.config_last_reload_unix_s != 0) {
    families->Gauge("foreshock_config_last_reload_success_timestamp_seconds",
                    "When configuration and rules were last read", {},
                    static_cast<double>(self.config_last_reload_unix_s));
  }
  AddIngest(self, families);
  AddStore(self, families);
  AddRules(self, families);
  AddRemoteWrites(self, families);
  AddHttp(self, families);
  AddSecurity(self, families);
}

void AddProcess(const ProcessStats& process, Families* families) {
  families->Gauge("process_resident_memory_bytes", "Resident memory size in bytes", {},
                  static_cast<double>(process.resident_bytes));
  families->Counter("process_cpu_seconds_total", "CPU time used, user and system", {},
                    process.cpu_s);
  families->Gauge("process_open_fds", "Open file descriptors", {},
                  static_cast<double>(process.open_files));
  families->Gauge("process_start_time_seconds", "Start of the process since the epoch", {},
                  process.start_unix_s);
}

void AddUndefined(const std::map<std::pair<std::string, std::string>, uint64_t>& undefined,
                  Families* families) {
  for (const auto& [indicator_reason, count] : undefined) {
    families->Counter(
        "foreshock_indicator_undefined_total", "Values that could not be computed, by reason",
        {{"indicator", indicator_reason.first}, {"reason", indicator_reason.second}}, count);
  }
}

}  // namespace foreshock::exporter::internal
