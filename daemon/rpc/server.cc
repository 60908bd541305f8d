#include "daemon/rpc/server.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/rpc/listen_probe.h"
#include "daemon/rpc/server_credentials.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"

namespace foreshock::rpc {
namespace {

// gRPC's own lines, such as a peer's protocol errors, go where ours go and may not fill the disk.
void LogFromGrpc(gpr_log_func_args* args) {
  const base::LogLevel level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? base::LogLevel::kWarning : base::LogLevel::kDebug;
  base::LogEvery(absl::StrCat("grpc:", args->file, ":", args->line), level, "grpc", args->message);
}

// Protobuf's, such as one for each name that is not UTF-8.
void LogFromProtobuf(google::protobuf::LogLevel severity, const char* file, int line,
                     const std::string& message) {
  const base::LogLevel level = severity >= google::protobuf::LOGLEVEL_WARNING
                                   ? base::LogLevel::kWarning
                                   : base::LogLevel::kDebug;
  base::LogEvery(absl::StrCat("protobuf:", file, ":", line), level, "protobuf", message);
}

// Switches of the process; the last two are read by every ServerBuilder.
void PrepareGrpc() {
  static const bool prepared = [] {
    gpr_set_log_function(&LogFromGrpc);
    google::protobuf::SetLogHandler(&LogFromProtobuf);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  (void)prepared;
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

GrpcServer::GrpcServer(Options options) : options_(std::move(options)) {}

GrpcServer::~GrpcServer() { (void)Shutdown(absl::ZeroDuration()); }

void GrpcServer::Add(absl::string_view full_name, grpc::Service* service) {
  FORESHOCK_CHECK(server_ == nullptr && service != nullptr);
  services_.push_back({std::string(full_name), service});
}

absl::StatusOr<std::string> GrpcServer::Start() {
  FORESHOCK_CHECK(server_ == nullptr);
  FORESHOCK_RETURN_IF_ERROR(CheckListenAddress(options_.address));
  PrepareGrpc();
  grpc::ServerBuilder builder;
  // Otherwise a second daemon on the same port starts too, and each gets some of the streams.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.streams_per_connection_max);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(options_.client_ping_interval_min));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options_.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options_.keepalive_timeout));
  builder.SetMaxReceiveMessageSize(static_cast<int>(options_.message_bytes_max));
  builder.SetResourceQuota(grpc::ResourceQuota("foreshock").Resize(options_.memory_bytes_max));
  int port = 0;
  credentials_ = options_.tls == nullptr ? grpc::InsecureServerCredentials()
                                         : MakeServerCredentials(options_.tls);
  builder.AddListeningPort(options_.address, credentials_, &port);
  for (const Named& named : services_) builder.RegisterService(named.service);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return ListenError(options_.address);
  for (const Named& named : services_) {
    server_->GetHealthCheckService()->SetServingStatus(named.name, true);
  }
  bound_ = options_.address;
  if (!absl::StartsWith(bound_, "unix:")) {
    bound_ = absl::StrCat(bound_.substr(0, bound_.rfind(':')), ":", port);
  }
  return bound_;
}

void GrpcServer::SetNotServing() {
  // Shutdown of the health service only: it answers NOT_SERVING and ignores later changes.
  if (server_ != nullptr) server_->GetHealthCheckService()->Shutdown();
}

absl::Status GrpcServer::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) return absl::OkStatus();
  SetNotServing();
  const absl::Time start = base::SteadyNow();
  server_->Shutdown(absl::ToChronoTime(start + grace));
  const absl::Duration waited = base::SteadyNow() - start;
  const bool in_time = waited < grace || grace <= absl::ZeroDuration();
  server_->Wait();
  server_.reset();
  if (in_time) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "calls or connections on ", bound_, " were still open after ",
      absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))), " and have been cut off"));
}

}  // namespace foreshock::rpc
