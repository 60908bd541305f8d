// Messages as JSON and back, the one way the HTTP port writes and reads them (docs/api.md).
// Internal to query/.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/http/server.h"
#include "google/protobuf/message.h"

namespace foreshock::query::internal {

// Field names as in the proto file, zero values printed.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message);

// Reads the body into `message`. InvalidArgument unless it is announced and written as JSON with
// known fields only.
absl::Status FromJson(const http::HttpRequest& request, google::protobuf::Message* message);

http::HttpResponse JsonAnswer(absl::StatusOr<std::string> json);

}  // namespace foreshock::query::internal
