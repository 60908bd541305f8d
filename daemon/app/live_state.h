// What the read API and /metrics say of the daemon as it is right now.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/mutex.h"
#include "daemon/exporter/exporter.h"
#include "daemon/http/server.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/notify/outbox.h"
#include "daemon/notify/silences.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/query/live_state.h"
#include "daemon/remote_write/remote_writer.h"
#include "daemon/rules/rule_set.h"
#include "daemon/security/access.h"
#include "daemon/security/tls_files.h"
#include "daemon/store/store.h"

namespace foreshock::app {

// What changes while the daemon runs, beside the parts' own counters. Thread-safe.
class AppState {
 public:
  std::atomic<bool> ready{false};
  std::atomic<bool> draining{false};
  std::atomic<bool> reload_successful{true};
  std::atomic<int64_t> reload_unix_s{0};

  std::shared_ptr<const rules::RuleSet> rules() const {
    base::MutexLock lock(&mutex_);
    return rules_;
  }
  void SetRules(std::shared_ptr<const rules::RuleSet> rules) {
    base::MutexLock lock(&mutex_);
    rules_ = std::move(rules);
  }

 private:
  mutable base::Mutex mutex_;
  std::shared_ptr<const rules::RuleSet> rules_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe; everything pointed to outlives it.
class AppLiveState final : public query::LiveState {
 public:
  struct Deps {
    const AppState* state = nullptr;
    const pipeline::Pipeline* pipeline = nullptr;
    const store::Store* store = nullptr;
    const ingest::IngestStats* ingest = nullptr;
    const http::HttpServer* http = nullptr;
    const security::TlsFiles* tls = nullptr;  // null: no TLS
    const security::AccessControl* access = nullptr;
    std::function<std::shared_ptr<const exporter::Snapshot>()> snapshot;
    const notify::Outbox* outbox = nullptr;
    const foreshock::notify::Silences* silences = nullptr;
    const std::vector<std::unique_ptr<remote_write::RemoteWriter>>* remote_writers = nullptr;
    std::string data_directory;
    uint64_t store_bytes_max = 0;
    int64_t started_unix_ns = 0;
  };

  explicit AppLiveState(Deps deps) : deps_(std::move(deps)) {}

  std::map<uint32_t, uint32_t> Connected(const std::string& run) const override;
  std::vector<v1::RuleInfo> Rules() const override;
  std::vector<v1::RuleFile> RuleFiles() const override;
  v1::ListBandsResponse Bands(const std::string& indicator) const override;
  std::vector<v1::Silence> Silences(bool expired) const override;
  std::vector<std::string> SilencedBy(const v1::Alert& alert) const override;
  v1::GetStatusResponse Status() const override;

  exporter::SelfStats Self() const;

 private:
  uint32_t AlertsFiring() const;

  const Deps deps_;
};

}  // namespace foreshock::app
