#include "daemon/app/live_state.h"

#include <algorithm>
#include <numeric>

#include "daemon/app/version.h"
#include "daemon/exporter/process_stats.h"
#include "daemon/rules/reference_bands.h"

namespace foreshock::app {
namespace {

uint64_t Refused(const ingest::IngestCounts& counts, ingest::Refusal reason) {
  return counts.refused[static_cast<size_t>(reason)];
}

}  // namespace

std::map<uint32_t, uint32_t> AppLiveState::Connected(const std::string& run) const {
  std::map<uint32_t, uint32_t> connected;
  const auto runs = deps_.pipeline->runs();
  if (const auto found = runs.find(run); found != runs.end()) {
    for (const pipeline::AttemptStatus& attempt : found->second) {
      connected[attempt.attempt] = attempt.ranks_connected;
    }
  }
  return connected;
}

std::vector<v1::RuleInfo> AppLiveState::Rules() const { return deps_.state->rules()->infos(); }

std::vector<v1::RuleFile> AppLiveState::RuleFiles() const { return deps_.state->rules()->files(); }

v1::ListBandsResponse AppLiveState::Bands(const std::string& indicator) const {
  return rules::ReferenceBands(*deps_.state->rules(), indicator);
}

uint32_t AppLiveState::AlertsFiring() const {
  uint32_t firing = 0;
  for (const auto& run : deps_.snapshot()->runs) {
    for (const auto& [key, ids] : run->alerts) firing += static_cast<uint32_t>(ids.size());
  }
  return firing;
}

std::vector<v1::Silence> AppLiveState::Silences(bool expired) const {
  return deps_.silences->List(expired);
}

std::vector<std::string> AppLiveState::SilencedBy(const v1::Alert& alert) const {
  return deps_.silences->Matching(alert);
}

v1::GetStatusResponse AppLiveState::Status() const {
  const pipeline::PipelineStats& pipeline = deps_.pipeline->stats();
  const ingest::IngestCounts ingest = deps_.ingest->Snapshot();
  v1::GetStatusResponse status;
  status.set_version(kVersion);
  status.set_started_unix_ns(deps_.started_unix_ns);
  status.set_ready(deps_.state->ready);
  status.set_draining(deps_.state->draining);
  status.set_streams(static_cast<uint32_t>(pipeline.streams));
  status.set_runs(static_cast<uint32_t>(deps_.pipeline->runs().size()));
  status.set_reports_committed(pipeline.reports_committed);
  status.set_reports_duplicate(pipeline.reports_duplicate);
  status.set_summaries_rejected(std::accumulate(ingest.summaries_rejected.begin(),
                                                ingest.summaries_rejected.end(), uint64_t{0}));
  status.set_alerts_firing(AlertsFiring());
  status.set_rules_loaded(static_cast<uint32_t>(deps_.state->rules()->infos().size()));
  status.set_config_last_reload_successful(deps_.state->reload_successful);
  status.set_data_directory(deps_.data_directory);
  status.set_open_steps(static_cast<uint32_t>(pipeline.open_steps));
  status.set_resident_bytes(static_cast<uint64_t>(exporter::ReadProcessStats().resident_bytes));
  return status;
}

exporter::SelfStats AppLiveState::Self() const {
  const pipeline::PipelineStats& pipeline = deps_.pipeline->stats();
  const ingest::IngestCounts ingest = deps_.ingest->Snapshot();
  const store::StoreStats store = deps_.store->Stats();
  const http::HttpStats http = deps_.http->stats();
  exporter::SelfStats self;
  self.version = kVersion;
  self.ready = deps_.state->ready;
  self.draining = deps_.state->draining;
  self.streams = static_cast<uint32_t>(pipeline.streams);
  self.reports_received = ingest.reports;
  self.reports_committed = pipeline.reports_committed;
  self.reports_duplicate = pipeline.reports_duplicate;
  self.reports_recomputed = pipeline.reports_recomputed;
  self.reports_late = pipeline.reports_late;
  self.reports_too_late = pipeline.reports_too_late;
  self.silent_ranks = pipeline.silent_ranks;
  for (size_t i = 0; i < ingest::kRefusals; ++i) {
    self.reports_refused[std::string(ingest::kRefusalNames[i])] = ingest.refused[i];
  }
  self.acks_sent = pipeline.acks_sent;
  self.summaries_rejected = std::accumulate(ingest.summaries_rejected.begin(),
                                            ingest.summaries_rejected.end(), uint64_t{0});
  self.queue_items = deps_.pipeline->queue_items();
  self.queue_bytes = pipeline.queue_bytes;
  self.limit_hits["queue"] = pipeline.queue_refusals;
  self.limit_hits["steps_ahead"] = pipeline.reports_too_far;
  self.limit_hits["open_bytes"] = pipeline.reports_no_room;
  self.limit_hits["clock_ahead"] = pipeline.reports_clock_ahead;
  self.limit_hits["streams"] = Refused(ingest, ingest::Refusal::kStreams);
  self.limit_hits["streams_per_run"] = Refused(ingest, ingest::Refusal::kStreamsPerRun);
  self.limit_hits["client_streams"] = Refused(ingest, ingest::Refusal::kClientStreams);
  self.limit_hits["client_runs"] = Refused(ingest, ingest::Refusal::kClientRuns);
  self.limit_hits["client_bytes"] = Refused(ingest, ingest::Refusal::kClientBytes);
  self.commit_latency = pipeline.commit_latency.Read();
  self.commit_failures = pipeline.commit_failures;
  self.open_steps = pipeline.open_steps;
  self.open_step_bytes = pipeline.open_bytes;
  self.snapshot_bytes = pipeline.snapshot_bytes;
  self.points_written = pipeline.points_written;
  self.store_bytes = store.bytes;
  self.store_series = store.series;
  self.store_bytes_max = deps_.store_bytes_max;
  self.points_downsampled = store.points_downsampled;
  self.points_dropped = store.points_dropped;
  self.runs_dropped = store.runs_dropped;
  self.store_writable = store.writable && pipeline.store_writable;
  self.store_damage = store.damage_found;
  self.store_open_points = store.open_points;
  self.store_fold_failures = store.fold_failures;
  self.rules_loaded = static_cast<uint32_t>(deps_.state->rules()->infos().size());
  self.rules_evaluated = pipeline.rules_evaluated;
  self.alerts_firing = AlertsFiring();
  for (const auto& [name, stats] : deps_.outbox->stats()) {
    exporter::NotifierSelfStats& notifier = self.notifiers[name];
    notifier.results = stats.results;
    notifier.pending = stats.pending;
    notifier.troubles = stats.troubles;
    if (stats.pending > 0) {
      notifier.oldest_pending_s =
          std::max(0.0, absl::ToDoubleSeconds(absl::Now() - stats.oldest_pending));
    }
    if (stats.last_success != absl::InfinitePast()) {
      notifier.last_success_unix_s = absl::ToUnixSeconds(stats.last_success);
    }
    if (stats.last_failure != absl::InfinitePast()) {
      notifier.last_failure_unix_s = absl::ToUnixSeconds(stats.last_failure);
    }
  }
  for (const auto& writer : *deps_.remote_writers) {
    const remote_write::RemoteWriteStats stats = writer->stats();
    exporter::RemoteWriteSelfStats& remote = self.remote_writes[writer->name()];
    remote.results = {{"sent", stats.sent}, {"refused", stats.refused}, {"dropped", stats.dropped}};
    remote.retries = stats.retries;
    remote.queue_samples = stats.queue_samples;
    remote.queue_bytes = stats.queue_bytes;
    if (stats.last_success != absl::InfinitePast()) {
      remote.last_success_unix_s = absl::ToUnixSeconds(stats.last_success);
    }
  }
  self.silences = deps_.silences->List(/*expired=*/false).size();
  self.limit_hits["notify_alerts"] = deps_.outbox->left_out();
  self.config_last_reload_successful = deps_.state->reload_successful;
  self.config_last_reload_unix_s = deps_.state->reload_unix_s;
  self.http_requests = http.requests;
  self.http_client_errors = http.client_errors;
  self.http_server_errors = http.server_errors;
  self.http_connections_refused = http.connections_refused;
  const auto access_refused = deps_.access->refused();
  for (size_t i = 0; i < security::kAccessRefusals; ++i) {
    self.access_refused[std::string(security::kAccessRefusalNames[i])] = access_refused[i];
  }
  if (deps_.tls != nullptr) {
    self.tls_certificate_expires_unix_s = absl::ToUnixSeconds(deps_.tls->expires());
    self.tls_reload_failures = deps_.tls->failures();
  }
  return self;
}

}  // namespace foreshock::app
