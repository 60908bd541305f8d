// QueryService over gRPC.
//
//   QueryService service({}, &answers);
//   builder.RegisterService(service.grpc());      // outlives the server
#pragma once

#include <cstddef>
#include <memory>

#include "daemon/query/answers.h"
#include "daemon/security/access.h"
#include "grpcpp/impl/codegen/service_type.h"

namespace foreshock::query {

// Thread-safe. Answers are computed on threads of its own, so that a long query holds up no ack.
class QueryService {
 public:
  struct Options {
    int threads = 2;
    size_t calls_max = 64;  // at once, streams included; more: RESOURCE_EXHAUSTED
  };

  // `access` may be null: everyone may read.
  QueryService(Options options, const Answers* answers,
               const security::AccessControl* access = nullptr);
  ~QueryService();  // after the server has shut down

  grpc::Service* grpc();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock::query
