#include "client/cli/connection.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/say.h"
#include "client/cpp/src/channel.h"

namespace foreshock::cli {

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

int ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnreachable;
    case absl::StatusCode::kInvalidArgument:
      return kUsage;
    default:
      return kFinding;
  }
}

Connection::Connection(const Settings& settings) : settings_(settings) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // A daemon is reached directly; a web proxy named in the environment would only be in the way.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Several connections in one process must not share counters of back-off.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto secrets = client_internal::ReadSecrets(settings_.credentials);
  secrets_ = secrets.status();
  channel_ = secrets.ok() ? client_internal::MakeChannel(settings_.server, *secrets, arguments)
                          : grpc::CreateChannel("invalid:", nullptr);
  query_ = v1::QueryService::NewStub(channel_);
  ingest_ = v1::IngestService::NewStub(channel_);
  admin_ = v1::AdminService::NewStub(channel_);
}

std::unique_ptr<grpc::ClientContext> Connection::Context() const {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() +
                        absl::ToChronoNanoseconds(settings_.timeout));
  return context;
}

int Connection::Report(const absl::Status& status) const {
  if (!secrets_.ok()) {
    SayErrorLines(absl::StrCat("foreshock: ", secrets_.message(), "\n"));
    return kUsage;
  }
  const int code = ExitCodeFor(status);
  if (code == kUnreachable) {
    SayError(
        "foreshock: no answer from foreshockd at %s (%s)\n"
        "  Is it running there? Start it with `foreshockd --data-dir DIR`, or name another\n"
        "  address with --server HOST:PORT or FORESHOCK_SERVER. `foreshock doctor` says more.\n",
        settings_.server, status.message());
    if (!absl::StrContains(settings_.server, ':')) {
      SayError("  The address names no port; foreshockd's own is %s:7317.\n", settings_.server);
    }
  } else {
    SayErrorLines(absl::StrCat("foreshock: ", status.message(), "\n"));
    if (absl::IsUnauthenticated(status)) {
      SayError("  A token is given with --token-file FILE or FORESHOCK_TOKEN_FILE.\n");
    }
  }
  return code;
}

}  // namespace foreshock::cli
