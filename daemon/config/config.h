// The daemon's configuration: one typed struct out of every module's options.
//
//   FORESHOCK_ASSIGN_OR_RETURN(Config config, LoadConfig("/etc/foreshock/foreshockd.yaml"));
//
// docs/config.md lists every key with its default and range; a test holds it to this code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/security.h"
#include "daemon/exporter/exporter.h"
#include "daemon/exporter/snapshot_builder.h"
#include "daemon/http/server.h"
#include "daemon/ingest/service.h"
#include "daemon/notify/options.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/remote_write/options.h"
#include "daemon/store/retention.h"
#include "daemon/store/store.h"

namespace foreshock::config {

inline constexpr absl::string_view kDefaultGrpcListen = "127.0.0.1:7317";
inline constexpr absl::string_view kDefaultHttpListen = "127.0.0.1:7318";

struct Config {
  store::StoreOptions store;
  store::RetentionOptions retention;
  std::string backup_directory;  // empty: no backups over the network
  pipeline::Pipeline::Options pipeline;
  http::HttpOptions http;
  ingest::IngestService::Options ingest;
  std::string grpc_listen = std::string(kDefaultGrpcListen);
  uint64_t grpc_memory_bytes_max = uint64_t{1} << 30;
  bool reload_over_http = false;       // POST /-/reload
  bool actions_over_http = true;       // POST /api/v1/...: acknowledge, silence
  security::TlsOptions tls;            // of both ports
  AccessOptions access;                // the tokens are reloadable
  exporter::SnapshotOptions snapshot;  // what /metrics shows of the runs
  exporter::ExporterOptions exporter;
  std::vector<std::string> rules;                  // files; reloadable
  std::vector<notify::NotifierOptions> notifiers;  // reloadable
  std::vector<remote_write::RemoteWriteOptions> remote_writes;
  std::string external_url;        // of this daemon, for links in messages; reloadable
  std::string log_level = "info";  // reloadable
  absl::Duration shutdown_deadline = absl::Seconds(10);
};

// Defaults where the file says nothing. Errors: every mistake of the file as
// file:line:column: what is wrong, what is allowed (InvalidArgument); NotFound, PermissionDenied.
absl::StatusOr<Config> LoadConfig(const std::string& path);
// The same from text; `name` stands for the file in messages.
absl::StatusOr<Config> ParseConfig(absl::string_view name, absl::string_view text);

// InvalidArgument for a port that other machines reach and nothing closes, unless access.insecure
// says that it is meant; then a line for the log.
absl::StatusOr<std::string> CheckExposure(const Config& config);

// The configuration in force as a file that LoadConfig would read.
std::string FormatConfig(const Config& config);

// The keys in which they differ, as docs/config.md names them: "grpc.listen", "remote_write".
std::vector<std::string> ChangedKeys(const Config& before, const Config& after);

}  // namespace foreshock::config
