// The daemon's gRPC port: the services handed in, grpc.health.v1 and reflection.
//
//   GrpcServer server({.address = "127.0.0.1:0"});
//   server.Add(v1::IngestService::service_full_name(), &ingest);
//   FORESHOCK_ASSIGN_OR_RETURN(const std::string bound, server.Start());  // "127.0.0.1:41513"
//   ...
//   server.SetNotServing();                 // first thing at the end: load balancers look away
//   server.Shutdown(absl::Seconds(10));     // calls still open after that are cancelled
//
// Health answers for the empty name and for each service; unknown names are NOT_FOUND.
// Thread rule: Add and Start from one thread, the rest from any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/security/tls_files.h"

namespace grpc {
class Server;
class ServerCredentials;
class Service;
}  // namespace grpc

namespace foreshock::rpc {

class GrpcServer {
 public:
  struct Options {
    std::string address = "127.0.0.1:0";        // host:port, [v6]:port or unix:/path; port 0: any
    size_t message_bytes_max = 64u << 20;       // of one received message; gRPC's own is 4 MiB
    size_t memory_bytes_max = size_t{1} << 30;  // for gRPC's buffers, over all connections
    int streams_per_connection_max = 4096;
    // Clients ping every 30 s; one that pings more often than this is cut off.
    absl::Duration client_ping_interval_min = absl::Seconds(10);
    // A client that answers no ping for keepalive_time + keepalive_timeout is gone.
    absl::Duration keepalive_time = absl::Seconds(60);
    absl::Duration keepalive_timeout = absl::Seconds(20);
    security::TlsFiles* tls = nullptr;  // null: plain; outlives the server
  };

  explicit GrpcServer(Options options);
  ~GrpcServer();  // as Shutdown(0)
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Before Start. `service` must live until Shutdown has returned.
  void Add(absl::string_view full_name, grpc::Service* service);

  // The bound address, with the real port. Errors: InvalidArgument for an address that cannot be
  // read, Unavailable (naming it and the system's reason) when it cannot be listened on.
  absl::StatusOr<std::string> Start();

  // Health says NOT_SERVING from now on; calls are still answered.
  void SetNotServing();

  // Takes no more calls, lets the open ones end, cancels what is open after `grace`, waits for it.
  // A connection without a call, of a peer that does not answer, is open too.
  // Errors: DeadlineExceeded when something had to be cut off. Safe to repeat.
  absl::Status Shutdown(absl::Duration grace);

 private:
  struct Named {
    std::string name;
    grpc::Service* service;
  };

  const Options options_;
  std::string bound_;  // after Start
  std::vector<Named> services_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;  // asked while the server lives
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace foreshock::rpc
