// The gRPC AdminService: checks the request, then calls what the app has given for it, one request
// at a time on a thread of its own (a reload or a deletion may take seconds).
//
//   AdminService admin({.reload = [&] { return app.Reload(); }, ...});
//   server.Add(v1::AdminService::service_full_name(), &admin);
//
// Thread-safe. An action's error is the caller's answer, message and code.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/worker_pool.h"
#include "daemon/security/access.h"
#include "daemon/store/disk_store.h"
#include "foreshock/v1/admin.grpc.pb.h"

namespace foreshock::rpc {

// All must be set.
struct AdminActions {
  std::function<absl::StatusOr<uint32_t>()> reload;  // rules loaded
  std::function<absl::StatusOr<uint32_t>(const std::string& run, const v1::Event& event)>
      declare_event;  // the attempt it was added to
  std::function<absl::Status(const std::string& run, bool pinned)> pin_run;
  std::function<absl::StatusOr<uint64_t>(const std::string& run)> delete_run;  // series deleted
  std::function<absl::StatusOr<v1::Alert>(const v1::AcknowledgeAlertRequest&)> acknowledge;
  std::function<absl::StatusOr<v1::AcceptAlertResponse>(const v1::AcceptAlertRequest&)> accept;
  std::function<absl::StatusOr<v1::Silence>(const v1::SilenceAlertsRequest&)> silence;
  std::function<absl::StatusOr<v1::Silence>(const std::string& id)> expire_silence;
  std::function<absl::StatusOr<store::StoreUsage>()> store_usage;
  // Called on a thread of its own, one at a time.
  std::function<absl::StatusOr<store::VerifyResult>(const store::VerifyCallbacks& callbacks)>
      verify_store;
  // To a plain name; the directory's path comes back.
  std::function<absl::StatusOr<std::pair<std::string, store::BackupInfo>>(const std::string& name)>
      backup_store;
};

class AdminService final : public v1::AdminService::CallbackService {
 public:
  // `access` may be null: everyone may do everything.
  explicit AdminService(AdminActions actions, const security::AccessControl* access = nullptr);

  grpc::ServerUnaryReactor* Reload(grpc::CallbackServerContext* context,
                                   const v1::ReloadRequest* request,
                                   v1::ReloadResponse* response) override;
  grpc::ServerUnaryReactor* DeclareEvent(grpc::CallbackServerContext* context,
                                         const v1::DeclareEventRequest* request,
                                         v1::DeclareEventResponse* response) override;
  grpc::ServerUnaryReactor* PinRun(grpc::CallbackServerContext* context,
                                   const v1::PinRunRequest* request,
                                   v1::PinRunResponse* response) override;
  grpc::ServerUnaryReactor* DeleteRun(grpc::CallbackServerContext* context,
                                      const v1::DeleteRunRequest* request,
                                      v1::DeleteRunResponse* response) override;
  grpc::ServerUnaryReactor* AcknowledgeAlert(grpc::CallbackServerContext* context,
                                             const v1::AcknowledgeAlertRequest* request,
                                             v1::AcknowledgeAlertResponse* response) override;
  grpc::ServerUnaryReactor* AcceptAlert(grpc::CallbackServerContext* context,
                                        const v1::AcceptAlertRequest* request,
                                        v1::AcceptAlertResponse* response) override;
  grpc::ServerUnaryReactor* SilenceAlerts(grpc::CallbackServerContext* context,
                                          const v1::SilenceAlertsRequest* request,
                                          v1::SilenceAlertsResponse* response) override;
  grpc::ServerUnaryReactor* ExpireSilence(grpc::CallbackServerContext* context,
                                          const v1::ExpireSilenceRequest* request,
                                          v1::ExpireSilenceResponse* response) override;
  grpc::ServerUnaryReactor* GetStoreStats(grpc::CallbackServerContext* context,
                                          const v1::GetStoreStatsRequest* request,
                                          v1::GetStoreStatsResponse* response) override;
  grpc::ServerWriteReactor<v1::VerifyStoreResponse>* VerifyStore(
      grpc::CallbackServerContext* context, const v1::VerifyStoreRequest* request) override;
  grpc::ServerUnaryReactor* BackupStore(grpc::CallbackServerContext* context,
                                        const v1::BackupStoreRequest* request,
                                        v1::BackupStoreResponse* response) override;

 private:
  // Runs `action` on the worker, if the caller has the role, and finishes the call with its status.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, security::Role role,
                                base::WorkerPool* worker, std::function<absl::Status()> action);

  const AdminActions actions_;
  const security::AccessControl* const access_;
  std::atomic<bool> verifying_{false};
  base::WorkerPool worker_{{.threads = 1, .tasks_max = 64}};
  // What reads the whole store must not keep a reload waiting.
  base::WorkerPool reader_{{.threads = 1, .tasks_max = 8}};
  base::WorkerPool verifier_{{.threads = 1, .tasks_max = 2}};
};

}  // namespace foreshock::rpc
