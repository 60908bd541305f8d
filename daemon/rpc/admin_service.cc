#include "daemon/rpc/admin_service.h"

#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/validate.h"

namespace foreshock {
namespace {

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace

AdminService::AdminService(AdminActions actions) : actions_(std::move(actions)) {
  FORESHOCK_CHECK(actions_.reload && actions_.declare_event && actions_.pin_run &&
                  actions_.delete_run && actions_.acknowledge && actions_.silence &&
                  actions_.expire_silence);
}

grpc::ServerUnaryReactor* AdminService::Run(grpc::CallbackServerContext* context,
                                            std::function<absl::Status()> action) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const bool taken =
      worker_.TryRun([reactor, action = std::move(action)] { reactor->Finish(ToGrpc(action())); });
  if (!taken) {
    reactor->Finish(grpc::Status(grpc::RESOURCE_EXHAUSTED,
                                 "too many administrative requests are waiting; try again"));
  }
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::Reload(grpc::CallbackServerContext* context,
                                               const v1::ReloadRequest* request,
                                               v1::ReloadResponse* response) {
  return Run(context, [this, response]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(const uint32_t rules, actions_.reload());
    response->set_rules_loaded(rules);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::DeclareEvent(grpc::CallbackServerContext* context,
                                                     const v1::DeclareEventRequest* request,
                                                     v1::DeclareEventResponse* response) {
  return Run(context, [this, request, response]() -> absl::Status {
    FORESHOCK_RETURN_IF_ERROR(ValidateRunName(request->run()));
    FORESHOCK_RETURN_IF_ERROR(ValidateEvent(request->event()));
    FORESHOCK_ASSIGN_OR_RETURN(const uint32_t attempt,
                               actions_.declare_event(request->run(), request->event()));
    response->set_attempt(attempt);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::PinRun(grpc::CallbackServerContext* context,
                                               const v1::PinRunRequest* request,
                                               v1::PinRunResponse* response) {
  return Run(context, [this, request]() -> absl::Status {
    FORESHOCK_RETURN_IF_ERROR(ValidateRunName(request->run()));
    return actions_.pin_run(request->run(), request->pinned());
  });
}

grpc::ServerUnaryReactor* AdminService::DeleteRun(grpc::CallbackServerContext* context,
                                                  const v1::DeleteRunRequest* request,
                                                  v1::DeleteRunResponse* response) {
  return Run(context, [this, request, response]() -> absl::Status {
    FORESHOCK_RETURN_IF_ERROR(ValidateRunName(request->run()));
    FORESHOCK_ASSIGN_OR_RETURN(const uint64_t series, actions_.delete_run(request->run()));
    response->set_series_deleted(series);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::AcknowledgeAlert(grpc::CallbackServerContext* context,
                                                         const v1::AcknowledgeAlertRequest* request,
                                                         v1::AcknowledgeAlertResponse* response) {
  return Run(context, [this, request, response]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(*response->mutable_alert(), actions_.acknowledge(*request));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::SilenceAlerts(grpc::CallbackServerContext* context,
                                                      const v1::SilenceAlertsRequest* request,
                                                      v1::SilenceAlertsResponse* response) {
  return Run(context, [this, request, response]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(*response->mutable_silence(), actions_.silence(*request));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::ExpireSilence(grpc::CallbackServerContext* context,
                                                      const v1::ExpireSilenceRequest* request,
                                                      v1::ExpireSilenceResponse* response) {
  return Run(context, [this, request, response]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(*response->mutable_silence(),
                               actions_.expire_silence(request->id()));
    return absl::OkStatus();
  });
}

}  // namespace foreshock
