#include "daemon/config/config.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "daemon/config/notifiers.h"
#include "daemon/config/remote_writes.h"
#include "daemon/notify/http_client.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::config {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kGiB = 1u << 30;
constexpr uint64_t kTiB = kGiB << 10;

constexpr yaml::YamlRange<absl::Duration> Between(absl::Duration min, absl::Duration max) {
  return {min, max};
}

void ReadStore(const yaml::YamlNode& node, Config* config) {
  store::StoreOptions& store = config->store;
  store.block_cache_bytes =
      node.Get("block_cache").Bytes({1 * kMiB, 64 * kGiB}, store.block_cache_bytes);
  store.write_buffer_bytes =
      node.Get("write_buffer").Bytes({1 * kMiB, 4 * kGiB}, store.write_buffer_bytes);
  store.log_bytes_max = node.Get("log_max").Bytes({8 * kMiB, 16 * kGiB}, store.log_bytes_max);
  store.open_files_max =
      static_cast<int>(node.Get("open_files_max").Int({32, 1 << 20}, store.open_files_max));
  store.open_points = static_cast<uint64_t>(
      node.Get("open_points").Int({1'000, 64 << 20}, static_cast<int64_t>(store.open_points)));
  const std::string precision = node.Get("precision").Word({"lossless", "declared"}, "lossless");
  store.precision =
      precision == "declared" ? store::Precision::kDeclared : store::Precision::kLossless;
  config->backup_directory = node.Get("backup_directory").String();
  config->pipeline.sync_interval = node.Get("sync_interval")
                                       .Duration(Between(absl::Milliseconds(10), absl::Minutes(10)),
                                                 config->pipeline.sync_interval);
}

// 0: no limit.
void ReadRetention(const yaml::YamlNode& node, Config* config) {
  store::RetentionOptions& retention = config->retention;
  const auto age = [&node](const char* key) {
    return node.Get(key).Duration(Between(absl::ZeroDuration(), absl::Hours(24 * 3650)));
  };
  const auto bytes = [&node](const char* key) { return node.Get(key).Bytes({0, 1024 * kTiB}); };
  retention.raw_for = age("raw_for");
  retention.raw_steps = node.Get("raw_steps").Int({0, int64_t{1} << 50});
  retention.downsampled_for = age("downsampled_for");
  retention.runs_for = age("runs_for");
  retention.alerts_for = age("alerts_for");
  retention.run_bytes_max = bytes("run_bytes_max");
  retention.bytes_max = bytes("bytes_max");
  retention.interval =
      node.Get("interval").Duration(Between(absl::Seconds(1), absl::Hours(24)), retention.interval);
}

void ReadGrpc(const yaml::YamlNode& node, Config* config) {
  config->grpc_listen = node.Get("listen").String(config->grpc_listen);
  ingest::IngestLimits& limits = config->ingest.limits;
  limits.message_bytes_max =
      node.Get("message_max").Bytes({64 << 10, 1 * kGiB}, limits.message_bytes_max);
  // Less than two messages, and one that is being read would hold up all the others.
  const uint64_t two_messages = 2 * limits.message_bytes_max;
  config->grpc_memory_bytes_max =
      node.Get("memory_max")
          .Bytes({two_messages, 1 * kTiB}, std::max(config->grpc_memory_bytes_max, two_messages));
  limits.streams_max =
      static_cast<uint32_t>(node.Get("streams_max").Int({1, 1 << 20}, limits.streams_max));
  limits.streams_per_run_max = static_cast<uint32_t>(
      node.Get("streams_per_run_max").Int({1, 1 << 20}, limits.streams_per_run_max));
}

void ReadHttp(const yaml::YamlNode& node, Config* config) {
  config->http.listen = node.Get("listen").String(config->http.listen);
  config->http.threads = static_cast<size_t>(
      node.Get("threads").Int({1, 256}, static_cast<int64_t>(config->http.threads)));
  config->reload_over_http = node.Get("reload").Bool(config->reload_over_http);
  config->actions_over_http = node.Get("actions").Bool(config->actions_over_http);
}

void ReadMerge(const yaml::YamlNode& node, Config* config) {
  merge::OpenSteps::Options& steps = config->pipeline.run.open_steps;
  steps.lateness = node.Get("lateness")
                       .Duration(Between(absl::Milliseconds(10), absl::Hours(24)), steps.lateness);
  steps.open_steps_max = static_cast<size_t>(
      node.Get("open_steps_max").Int({1, 1 << 20}, static_cast<int64_t>(steps.open_steps_max)));
  steps.kept_steps = node.Get("kept_steps").Int({0, 1 << 20}, steps.kept_steps);
  steps.bytes_max = node.Get("bytes_max").Bytes({1 * kMiB, 64 * kGiB}, steps.bytes_max);
  steps.rank_bytes_max =
      node.Get("rank_bytes_max").Bytes({1 * kMiB, 64 * kGiB}, steps.rank_bytes_max);
  config->pipeline.open_bytes_max =
      node.Get("all_bytes_max").Bytes({1 * kMiB, 1024 * kGiB}, config->pipeline.open_bytes_max);
  steps.gate.ahead_max =
      node.Get("steps_ahead_max").Int({1, int64_t{1} << 53}, steps.gate.ahead_max);
}

void ReadLimits(const yaml::YamlNode& node, Config* config) {
  pipeline::Pipeline::Options& pipeline = config->pipeline;
  pipeline.runs_max = static_cast<size_t>(
      node.Get("runs_max").Int({1, 1 << 20}, static_cast<int64_t>(pipeline.runs_max)));
  pipeline.queue_bytes_max =
      node.Get("queue_bytes_max").Bytes({1 * kMiB, 16 * kGiB}, pipeline.queue_bytes_max);
  ingest::IngestLimits& ingest = config->ingest.limits;
  ingest.client_streams_max = static_cast<uint32_t>(
      node.Get("client_streams_max").Int({0, 1 << 20}, ingest.client_streams_max));
  ingest.client_runs_max =
      static_cast<uint32_t>(node.Get("client_runs_max").Int({0, 1 << 20}, ingest.client_runs_max));
  ingest.client_bytes_per_second_max =
      node.Get("client_bytes_per_second_max").Bytes({0, 64 * kGiB});
  pipeline.run.snapshots.bytes_max =
      node.Get("snapshot_bytes_max").Bytes({1 * kMiB, 64 * kGiB}, pipeline.run.snapshots.bytes_max);
}

void ReadMetrics(const yaml::YamlNode& node, Config* config) {
  config->snapshot.top_k =
      static_cast<uint32_t>(node.Get("top_k").Int({0, 64}, config->snapshot.top_k));
  config->exporter.series_max =
      static_cast<size_t>(node.Get("series_max")
                              .Int({100, static_cast<int64_t>(exporter::Exporter::kSeriesLimit)},
                                   static_cast<int64_t>(config->exporter.series_max)));
  config->snapshot.finished_stay = node.Get("ended_runs_for")
                                       .Duration(Between(absl::ZeroDuration(), absl::Hours(8760)),
                                                 config->snapshot.finished_stay);
  config->snapshot.silent_stay =
      node.Get("silent_runs_for")
          .Duration(Between(absl::ZeroDuration(), absl::Hours(8760)), config->snapshot.silent_stay);
}

// "5s"; absl would write "1h0m0s" for an hour, which LoadConfig reads as well.
std::string Text(absl::Duration duration) { return absl::FormatDuration(duration); }

absl::string_view Text(store::Precision precision) {
  return precision == store::Precision::kDeclared ? "declared" : "lossless";
}

// What FormatConfig wrote, by "section.key" and, of what is no section, by "key".
std::map<std::string, std::string> ByKey(const std::string& text) {
  std::map<std::string, std::string> values;
  yaml::YamlDocument document("config", text);
  for (const auto& [name, node] : document.root().Entries()) {
    const auto entries = node.Entries();
    if (entries.empty()) values[name] = node.Canonical();
    for (const auto& [key, value] : entries) {
      values[absl::StrCat(name, ".", key)] = value.Canonical();
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<Config> ParseConfig(absl::string_view name, absl::string_view text) {
  Config config;
  config.http.listen = std::string(kDefaultHttpListen);
  yaml::YamlDocument document(name, text);
  const yaml::YamlNode root = document.root();
  config.store.directory = root.Get("data_directory").String();
  ReadGrpc(root.Get("grpc"), &config);
  ReadHttp(root.Get("http"), &config);
  config.tls = ReadTlsOptions(root.Get("tls"));
  config.access = ReadAccessOptions(root.Get("access"));
  ReadStore(root.Get("store"), &config);
  ReadRetention(root.Get("retention"), &config);
  ReadMerge(root.Get("merge"), &config);
  ReadLimits(root.Get("limits"), &config);
  ReadMetrics(root.Get("metrics"), &config);
  config.rules = root.Get("rules").Strings();
  config.notifiers = ReadNotifiers(root.Get("notifiers"));
  config.remote_writes = ReadRemoteWrites(root.Get("remote_write"));
  const yaml::YamlNode external_url = root.Get("external_url");
  config.external_url = external_url.String();
  if (const std::string wrong =
          config.external_url.empty() ? "" : notify::CheckPlainUrl(config.external_url);
      !wrong.empty()) {
    external_url.Error(
        absl::StrCat("this URL is ", wrong, "; allowed is http(s)://HOST[:PORT][/PATH]"));
  }
  config.log_level =
      root.Get("log_level").Word({"debug", "info", "warning", "error"}, config.log_level);
  config.shutdown_deadline =
      root.Get("shutdown_deadline")
          .Duration(Between(absl::Milliseconds(100), absl::Hours(1)), config.shutdown_deadline);
  FORESHOCK_RETURN_IF_ERROR(document.status());
  return config;
}

absl::StatusOr<Config> LoadConfig(const std::string& path) {
  std::string text;
  FORESHOCK_RETURN_IF_ERROR(yaml::ReadYamlFile(path, &text));
  return ParseConfig(path, text);
}

absl::StatusOr<std::string> CheckExposure(const Config& config) {
  struct Port {
    const char* name;
    const std::string& listen;
    bool client_cert;
  };
  std::string open;
  for (const Port& port : {Port{"grpc", config.grpc_listen, config.tls.grpc_client_cert},
                           Port{"http", config.http.listen, config.tls.http_client_cert}}) {
    const std::string missing =
        MissingProtection(port.listen, config.tls, port.client_cert, config.access);
    if (missing.empty()) continue;
    absl::StrAppend(&open, open.empty() ? "" : "; ", port.name, ".listen ", port.listen,
                    " can be reached from other machines, and ", missing);
  }
  if (open.empty() || config.access.insecure) return open;
  return absl::InvalidArgumentError(absl::StrCat(
      open,
      ". Close it (docs/deployment.md), listen on 127.0.0.1, or say with access.insecure: true or "
      "--insecure that the network around it is closed"));
}

std::string FormatConfig(const Config& config) {
  const merge::OpenSteps::Options& merge = config.pipeline.run.open_steps;
  const store::RetentionOptions& retention = config.retention;
  std::string rules;
  for (const std::string& file : config.rules) absl::StrAppend(&rules, "\n  - ", file);
  return absl::StrCat("data_directory: ", config.store.directory,                             //
                      "\ngrpc:\n  listen: \"", config.grpc_listen, "\"",                      //
                      "\n  message_max: ", config.ingest.limits.message_bytes_max,            //
                      "\n  memory_max: ", config.grpc_memory_bytes_max,                       //
                      "\n  streams_max: ", config.ingest.limits.streams_max,                  //
                      "\n  streams_per_run_max: ", config.ingest.limits.streams_per_run_max,  //
                      "\nhttp:\n  listen: \"", config.http.listen, "\"",                      //
                      "\n  threads: ", config.http.threads,                                   //
                      "\n  reload: ", config.reload_over_http ? "true" : "false",             //
                      "\n  actions: ", config.actions_over_http ? "true" : "false",           //
                      FormatTls(config.tls), FormatAccess(config.access),                     //
                      "\nstore:\n  sync_interval: ", Text(config.pipeline.sync_interval),     //
                      "\n  block_cache: ", config.store.block_cache_bytes,                    //
                      "\n  write_buffer: ", config.store.write_buffer_bytes,                  //
                      "\n  log_max: ", config.store.log_bytes_max,                            //
                      "\n  open_files_max: ", config.store.open_files_max,                    //
                      "\n  open_points: ", config.store.open_points,                          //
                      "\n  precision: ", Text(config.store.precision),                        //
                      "\n  backup_directory: \"", config.backup_directory, "\"",              //
                      "\nretention:\n  raw_for: ", Text(retention.raw_for),                   //
                      "\n  raw_steps: ", retention.raw_steps,                                 //
                      "\n  downsampled_for: ", Text(retention.downsampled_for),               //
                      "\n  runs_for: ", Text(retention.runs_for),                             //
                      "\n  alerts_for: ", Text(retention.alerts_for),                         //
                      "\n  run_bytes_max: ", retention.run_bytes_max,                         //
                      "\n  bytes_max: ", retention.bytes_max,                                 //
                      "\n  interval: ", Text(retention.interval),                             //
                      "\nmerge:\n  lateness: ", Text(merge.lateness),                         //
                      "\n  open_steps_max: ", merge.open_steps_max,                           //
                      "\n  kept_steps: ", merge.kept_steps,                                   //
                      "\n  bytes_max: ", merge.bytes_max,                                     //
                      "\n  rank_bytes_max: ", merge.rank_bytes_max,                           //
                      "\n  all_bytes_max: ", config.pipeline.open_bytes_max,                  //
                      "\n  steps_ahead_max: ", merge.gate.ahead_max,                          //
                      "\nlimits:\n  runs_max: ", config.pipeline.runs_max,                    //
                      "\n  queue_bytes_max: ", config.pipeline.queue_bytes_max,               //
                      "\n  snapshot_bytes_max: ", config.pipeline.run.snapshots.bytes_max,    //
                      "\n  client_streams_max: ", config.ingest.limits.client_streams_max,    //
                      "\n  client_runs_max: ", config.ingest.limits.client_runs_max,          //
                      "\n  client_bytes_per_second_max: ",
                      config.ingest.limits.client_bytes_per_second_max,  //
                      "\nmetrics:\n  top_k: ", config.snapshot.top_k,    //
                      "\n  series_max: ", config.exporter.series_max,    //
                      "\n  ended_runs_for: ", Text(config.snapshot.finished_stay),
                      "\n  silent_runs_for: ", Text(config.snapshot.silent_stay),   //
                      "\nrules:", rules.empty() ? " []" : rules,                    //
                      "\nnotifiers:", FormatNotifiers(config.notifiers),            //
                      "\nremote_write:", FormatRemoteWrites(config.remote_writes),  //
                      "\nexternal_url: \"", config.external_url, "\"",              //
                      "\nlog_level: ", config.log_level,                            //
                      "\nshutdown_deadline: ", Text(config.shutdown_deadline), "\n");
}

std::vector<std::string> ChangedKeys(const Config& before, const Config& after) {
  const std::map<std::string, std::string> old = ByKey(FormatConfig(before));
  std::vector<std::string> changed;
  for (const auto& [key, value] : ByKey(FormatConfig(after))) {
    const auto found = old.find(key);
    if (found == old.end() || found->second != value) changed.push_back(key);
  }
  return changed;
}

}  // namespace foreshock::config
