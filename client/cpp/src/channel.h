// A gRPC channel that shows what Credentials say.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "foreshock/credentials.h"

namespace foreshock::client_internal {

// The content of the files; never shown.
struct Secrets {
  bool tls = false;
  std::string ca{};
  std::string cert{};
  std::string key{};
  std::string server_name{};
  std::string token{};

  bool operator==(const Secrets&) const = default;
};

// NotFound, PermissionDenied or InvalidArgument (empty, over 1 MiB, a token that is not one
// printable line); the message names the file and never what is in it.
absl::StatusOr<Secrets> ReadSecrets(const Credentials& credentials);

// Every call on it carries the token.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const Secrets& secrets,
                                           grpc::ChannelArguments arguments);

}  // namespace foreshock::client_internal
