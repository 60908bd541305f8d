#include "daemon/rpc/admin_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/mutex.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/validate.h"
#include "daemon/security/grpc_caller.h"
#include "daemon/security/grpc_status.h"
#include "daemon/store/messages.h"

namespace foreshock::rpc {
namespace {

// A name from the network becomes the name of a directory.
absl::Status CheckBackupName(const std::string& name) {
  constexpr size_t kNameMax = 64;
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kNameMax && name.front() != '.' &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backup name '", absl::CEscape(name.substr(0, kNameMax)),
                   "': 1 to 64 letters, digits, '-', '_' and '.' are allowed, not first a '.'"));
}

// Runs a check of the store and streams what it says. The check waits for each message to leave.
class VerifyReactor final : public grpc::ServerWriteReactor<v1::VerifyStoreResponse> {
 public:
  using Action =
      std::function<absl::StatusOr<store::VerifyResult>(const store::VerifyCallbacks& callbacks)>;

  VerifyReactor(const grpc::Status& admitted, const Action* action, std::atomic<bool>* busy,
                base::WorkerPool* worker)
      : action_(action), busy_(busy) {
    if (!admitted.ok()) {
      Finish(admitted);
    } else if (busy_->exchange(true)) {
      Finish({grpc::RESOURCE_EXHAUSTED, "the store is being checked already; try again"});
    } else if (!worker->TryRun([this] { Work(); })) {
      *busy_ = false;
      Finish({grpc::UNAVAILABLE, "the daemon is stopping"});
    }
  }

  void OnWriteDone(bool ok) override {
    base::MutexLock lock(&mutex_);
    writing_ = false;
    gone_ = gone_ || !ok;
    changed_.NotifyAll();
  }
  void OnCancel() override {
    base::MutexLock lock(&mutex_);
    gone_ = true;
    changed_.NotifyAll();
  }
  void OnDone() override { delete this; }

 private:
  void Work() {
    store::VerifyCallbacks callbacks;
    callbacks.finding = [this](const store::VerifyFinding& finding) {
      v1::VerifyStoreResponse event;
      *event.mutable_finding() = store::ToProto(finding);
      Send(std::move(event));
    };
    callbacks.progress = [this](const store::VerifyProgress& progress) {
      v1::VerifyStoreResponse event;
      *event.mutable_progress() = store::ToProto(progress);
      return Send(std::move(event));
    };
    const absl::StatusOr<store::VerifyResult> result = (*action_)(callbacks);
    if (result.ok()) {
      v1::VerifyStoreResponse event;
      *event.mutable_result() = store::ToProto(*result);
      Send(std::move(event));
    }
    *busy_ = false;
    Finish(security::ToGrpc(result.status()));
  }

  // False: nobody listens any more.
  bool Send(v1::VerifyStoreResponse event) {
    base::MutexLock lock(&mutex_);
    if (gone_) return false;
    event_ = std::move(event);
    writing_ = true;
    StartWrite(&event_);
    while (writing_) changed_.Wait(&mutex_);
    return !gone_;
  }

  const Action* const action_;
  std::atomic<bool>* const busy_;
  v1::VerifyStoreResponse event_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

AdminService::AdminService(AdminActions actions, const security::AccessControl* access)
    : actions_(std::move(actions)), access_(access) {
  FORESHOCK_CHECK(actions_.reload && actions_.declare_event && actions_.pin_run &&
                  actions_.delete_run && actions_.acknowledge && actions_.accept &&
                  actions_.silence && actions_.expire_silence && actions_.store_usage &&
                  actions_.verify_store && actions_.backup_store);
}

grpc::ServerUnaryReactor* AdminService::Run(grpc::CallbackServerContext* context,
                                            security::Role role, base::WorkerPool* worker,
                                            std::function<absl::Status()> action) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (const grpc::Status admitted = security::Admit(access_, *context, role); !admitted.ok()) {
    reactor->Finish(admitted);
    return reactor;
  }
  const bool taken = worker->TryRun(
      [reactor, action = std::move(action)] { reactor->Finish(security::ToGrpc(action())); });
  if (!taken) {
    reactor->Finish(grpc::Status(grpc::RESOURCE_EXHAUSTED,
                                 "too many administrative requests are waiting; try again"));
  }
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::Reload(grpc::CallbackServerContext* context,
                                               const v1::ReloadRequest* request,
                                               v1::ReloadResponse* response) {
  return Run(context, security::Role::kAdmin, &worker_, [this, response]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(const uint32_t rules, actions_.reload());
    response->set_rules_loaded(rules);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::DeclareEvent(grpc::CallbackServerContext* context,
                                                     const v1::DeclareEventRequest* request,
                                                     v1::DeclareEventResponse* response) {
  return Run(context, security::Role::kOperate, &worker_,
             [this, request, response]() -> absl::Status {
               FORESHOCK_RETURN_IF_ERROR(ingest::ValidateRunName(request->run()));
               FORESHOCK_RETURN_IF_ERROR(ingest::ValidateEvent(request->event()));
               FORESHOCK_ASSIGN_OR_RETURN(const uint32_t attempt,
                                          actions_.declare_event(request->run(), request->event()));
               response->set_attempt(attempt);
               return absl::OkStatus();
             });
}

grpc::ServerUnaryReactor* AdminService::PinRun(grpc::CallbackServerContext* context,
                                               const v1::PinRunRequest* request,
                                               v1::PinRunResponse* response) {
  return Run(context, security::Role::kAdmin, &worker_, [this, request]() -> absl::Status {
    FORESHOCK_RETURN_IF_ERROR(ingest::ValidateRunName(request->run()));
    return actions_.pin_run(request->run(), request->pinned());
  });
}

grpc::ServerUnaryReactor* AdminService::DeleteRun(grpc::CallbackServerContext* context,
                                                  const v1::DeleteRunRequest* request,
                                                  v1::DeleteRunResponse* response) {
  return Run(
      context, security::Role::kAdmin, &worker_, [this, request, response]() -> absl::Status {
        FORESHOCK_RETURN_IF_ERROR(ingest::ValidateRunName(request->run()));
        FORESHOCK_ASSIGN_OR_RETURN(const uint64_t series, actions_.delete_run(request->run()));
        response->set_series_deleted(series);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::AcknowledgeAlert(grpc::CallbackServerContext* context,
                                                         const v1::AcknowledgeAlertRequest* request,
                                                         v1::AcknowledgeAlertResponse* response) {
  return Run(
      context, security::Role::kOperate, &worker_, [this, request, response]() -> absl::Status {
        FORESHOCK_ASSIGN_OR_RETURN(*response->mutable_alert(), actions_.acknowledge(*request));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::GetStoreStats(grpc::CallbackServerContext* context,
                                                      const v1::GetStoreStatsRequest* request,
                                                      v1::GetStoreStatsResponse* response) {
  return Run(context, security::Role::kRead, &reader_, [this, response]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(const store::StoreUsage usage, actions_.store_usage());
    *response = store::ToProto(usage);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::AcceptAlert(grpc::CallbackServerContext* context,
                                                    const v1::AcceptAlertRequest* request,
                                                    v1::AcceptAlertResponse* response) {
  return Run(context, security::Role::kOperate, &worker_,
             [this, request, response]() -> absl::Status {
               FORESHOCK_ASSIGN_OR_RETURN(*response, actions_.accept(*request));
               return absl::OkStatus();
             });
}

grpc::ServerUnaryReactor* AdminService::SilenceAlerts(grpc::CallbackServerContext* context,
                                                      const v1::SilenceAlertsRequest* request,
                                                      v1::SilenceAlertsResponse* response) {
  return Run(context, security::Role::kOperate, &worker_,
             [this, request, response]() -> absl::Status {
               FORESHOCK_ASSIGN_OR_RETURN(*response->mutable_silence(), actions_.silence(*request));
               return absl::OkStatus();
             });
}

grpc::ServerUnaryReactor* AdminService::ExpireSilence(grpc::CallbackServerContext* context,
                                                      const v1::ExpireSilenceRequest* request,
                                                      v1::ExpireSilenceResponse* response) {
  return Run(context, security::Role::kOperate, &worker_,
             [this, request, response]() -> absl::Status {
               FORESHOCK_ASSIGN_OR_RETURN(*response->mutable_silence(),
                                          actions_.expire_silence(request->id()));
               return absl::OkStatus();
             });
}

grpc::ServerWriteReactor<v1::VerifyStoreResponse>* AdminService::VerifyStore(
    grpc::CallbackServerContext* context, const v1::VerifyStoreRequest*) {
  return new VerifyReactor(security::Admit(access_, *context, security::Role::kAdmin),
                           &actions_.verify_store, &verifying_, &verifier_);
}

grpc::ServerUnaryReactor* AdminService::BackupStore(grpc::CallbackServerContext* context,
                                                    const v1::BackupStoreRequest* request,
                                                    v1::BackupStoreResponse* response) {
  return Run(
      context, security::Role::kAdmin, &reader_, [this, request, response]() -> absl::Status {
        FORESHOCK_RETURN_IF_ERROR(CheckBackupName(request->name()));
        FORESHOCK_ASSIGN_OR_RETURN(const auto backup, actions_.backup_store(request->name()));
        const auto& [directory, info] = backup;
        response->set_directory(directory);
        response->set_id(info.id);
        response->set_time_unix_s(info.time_unix_s);
        response->set_bytes(info.bytes);
        response->set_files(info.files);
        return absl::OkStatus();
      });
}

}  // namespace foreshock::rpc
