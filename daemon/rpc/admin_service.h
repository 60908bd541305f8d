// The gRPC AdminService: checks the request, then calls what the app has given for it, one request
// at a time on a thread of its own (a reload or a deletion may take seconds).
//
//   AdminService admin({.reload = [&] { return app.Reload(); }, ...});
//   server.Add(v1::AdminService::service_full_name(), &admin);
//
// Thread-safe. An action's error is the caller's answer, message and code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/worker_pool.h"
#include "foreshock/v1/admin.grpc.pb.h"

namespace foreshock {

// All must be set.
struct AdminActions {
  std::function<absl::StatusOr<uint32_t>()> reload;  // rules loaded
  std::function<absl::StatusOr<uint32_t>(const std::string& run, const v1::Event& event)>
      declare_event;  // the attempt it was added to
  std::function<absl::Status(const std::string& run, bool pinned)> pin_run;
  std::function<absl::StatusOr<uint64_t>(const std::string& run)> delete_run;  // series deleted
  std::function<absl::StatusOr<v1::Alert>(const v1::AcknowledgeAlertRequest&)> acknowledge;
  std::function<absl::StatusOr<v1::Silence>(const v1::SilenceAlertsRequest&)> silence;
  std::function<absl::StatusOr<v1::Silence>(const std::string& id)> expire_silence;
};

class AdminService final : public v1::AdminService::CallbackService {
 public:
  explicit AdminService(AdminActions actions);

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
  grpc::ServerUnaryReactor* SilenceAlerts(grpc::CallbackServerContext* context,
                                          const v1::SilenceAlertsRequest* request,
                                          v1::SilenceAlertsResponse* response) override;
  grpc::ServerUnaryReactor* ExpireSilence(grpc::CallbackServerContext* context,
                                          const v1::ExpireSilenceRequest* request,
                                          v1::ExpireSilenceResponse* response) override;

 private:
  // Runs `action` on the worker and finishes the call with its status.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context,
                                std::function<absl::Status()> action);

  const AdminActions actions_;
  WorkerPool worker_{{.threads = 1, .tasks_max = 64}};
};

}  // namespace foreshock
