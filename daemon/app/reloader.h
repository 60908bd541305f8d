// Reads configuration and rules again while the daemon runs.
//
//   Reloader reloader(config, load, {.pipeline = &pipeline, ...});
//   FORESHOCK_RETURN_IF_ERROR(reloader.Reload());
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/app/live_state.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/config/config.h"
#include "daemon/notify/outbox.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/security/access.h"
#include "daemon/security/tls_files.h"

namespace foreshock::app {

// Tokens of the configuration, in force from now on.
void SetTokens(const config::AccessOptions& options, security::AccessControl* access);

// Where links in messages lead to: what the configuration says, else the bound HTTP address.
std::string ExternalUrl(const config::Config& config, const std::string& http_address);

// Thread-safe; everything pointed to outlives it.
class Reloader {
 public:
  using LoadFn = std::function<absl::StatusOr<config::Config>()>;
  struct Deps {
    security::TlsFiles* tls = nullptr;  // null: no TLS
    security::AccessControl* access = nullptr;
    pipeline::Pipeline* pipeline = nullptr;
    notify::Outbox* outbox = nullptr;
    AppState* state = nullptr;  // says how the last reload went
    const base::Clock* clock = nullptr;
    std::string http_address{};  // bound
  };

  Reloader(config::Config in_force, LoadFn load, Deps deps)
      : load_(std::move(load)), deps_(std::move(deps)), in_force_(std::move(in_force)) {}

  // All or nothing. Errors: what is wrong with the files.
  absl::Status Reload();

 private:
  absl::Status Apply() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Names in the log what differs from the settings in force and waits for a restart.
  void TellWhatWaits(const config::Config& fresh) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LoadFn load_;
  const Deps deps_;
  base::Mutex mutex_;  // one reload at a time
  config::Config in_force_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::app
