#include "daemon/ingest/service.h"

#include "daemon/base/check.h"
#include "daemon/ingest/push_once.h"
#include "daemon/ingest/push_reactor.h"
#include "daemon/ingest/service_core.h"
#include "daemon/security/grpc_caller.h"

namespace foreshock::ingest {

IngestService::IngestService(Options options, Deps deps) {
  FORESHOCK_CHECK(deps.sink != nullptr && deps.stats != nullptr);
  core_ = std::make_unique<ServiceCore>(options, deps);
}

IngestService::~IngestService() = default;

void IngestService::Drain() {
  for (const std::shared_ptr<ReactorHandle>& handle : core_->StartDraining()) {
    PushReactor::Drain(handle);
  }
}

grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* IngestService::Push(
    grpc::CallbackServerContext* context) {
  return new PushReactor(core_.get(), security::CallerOf(*context));
}

grpc::ServerUnaryReactor* IngestService::PushOnce(grpc::CallbackServerContext* context,
                                                  const v1::PushOnceRequest* request,
                                                  v1::PushOnceResponse* response) {
  return new PushOnceReactor(core_.get(), security::CallerOf(*context), request, response);
}

}  // namespace foreshock::ingest
