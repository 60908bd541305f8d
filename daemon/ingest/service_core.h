// What all streams of an IngestService share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/base/worker_pool.h"
#include "daemon/ingest/admission.h"
#include "daemon/ingest/push_status.h"
#include "daemon/ingest/service.h"

namespace foreshock::ingest {

class PushReactor;

// The way to a reactor for threads that may outlive it: the sink's writer, and Drain. Its mutex is
// the reactor's own.
struct ReactorHandle {
  base::Mutex mutex;
  PushReactor* reactor ABSL_GUARDED_BY(mutex) = nullptr;  // nullptr: the stream is over
};

// Thread-safe.
class ServiceCore {
 public:
  ServiceCore(const IngestService::Options& options_in, const IngestService::Deps& deps)
      : options(options_in),
        sink(deps.sink),
        stats(deps.stats),
        access(deps.access),
        admission(options.limits, stats, &clock),
        heavy({.threads = options.heavy_threads, .tasks_max = options.heavy_tasks_max}),
        openers({.threads = options.open_threads, .tasks_max = options.open_tasks_max}),
        once({.threads = options.once_threads, .tasks_max = options.once_tasks_max}) {}

  grpc::Status StatusOf(const absl::Status& status) const {
    return ToPushStatus(status, options.retry_delay);
  }

  // Unavailable while draining.
  absl::Status CheckNotDraining() const {
    if (!draining_) return absl::OkStatus();
    stats->Refuse(Refusal::kDraining);
    return DrainingError();
  }
  static absl::Status DrainingError() {
    return absl::UnavailableError(
        "the daemon is going down; reconnect and send again what was "
        "not acknowledged");
  }

  // Who may push at all, and who to this run. Counts what it refuses.
  absl::Status CheckMayPush(const security::Caller& caller) const {
    if (access == nullptr) return absl::OkStatus();
    const absl::Status status = access->Admit(caller, security::Role::kPush).status();
    if (!status.ok()) stats->Refuse(Refusal::kAccess);
    return status;
  }
  absl::StatusOr<security::Client> AdmitPush(const security::Caller& caller,
                                             absl::string_view run) const {
    if (access == nullptr) return security::Client{};
    absl::StatusOr<security::Client> client = access->AdmitPush(caller, run);
    if (!client.ok()) stats->Refuse(Refusal::kAccess);
    return client;
  }

  absl::Status BytesPerSecondError(absl::string_view client) const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "client '", client, "' sends more than ", options.limits.client_bytes_per_second_max,
        " bytes a second, the limit of each client (client_bytes_per_second_max)"));
  }

  void Add(std::shared_ptr<ReactorHandle> handle) {
    base::MutexLock lock(&mutex_);
    handles_.insert(std::move(handle));
  }
  void Remove(const std::shared_ptr<ReactorHandle>& handle) {
    base::MutexLock lock(&mutex_);
    handles_.erase(handle);
  }
  // From now on CheckNotDraining fails; every stream that was added before.
  std::vector<std::shared_ptr<ReactorHandle>> StartDraining() {
    draining_ = true;
    base::MutexLock lock(&mutex_);
    return {handles_.begin(), handles_.end()};
  }

  const IngestService::Options options;
  ReportSink* const sink;
  IngestStats* const stats;
  const security::AccessControl* const access;  // null: everyone may push
  const base::SystemClock clock;
  Admission admission;
  base::WorkerPool heavy;    // Submit of reports with weights
  base::WorkerPool openers;  // ReportSink::Open
  base::WorkerPool once;     // whole PushOnce calls

 private:
  std::atomic<bool> draining_{false};
  base::Mutex mutex_;
  absl::flat_hash_set<std::shared_ptr<ReactorHandle>> handles_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::ingest
