#include "daemon/query/json.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace foreshock::query::internal {

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat("as JSON: ", status.ToString()));
  }
  return json;
}

absl::Status FromJson(const http::HttpRequest& request, google::protobuf::Message* message) {
  // A browser sends this type to another site only if that site allows it, which this one never
  // does: so no page of someone else can act in the name of whoever looks at it.
  if (request.content_type != "application/json") {
    return absl::InvalidArgumentError(absl::StrCat(
        "the body's Content-Type is '", request.content_type, "': allowed is application/json"));
  }
  const auto status = google::protobuf::util::JsonStringToMessage(request.body, message);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the body is no JSON of ", message->GetTypeName(),
                                                 ": ", std::string(status.message())));
}

http::HttpResponse JsonAnswer(absl::StatusOr<std::string> json) {
  if (!json.ok()) return http::ErrorResponse(json.status());
  return {.content_type = "application/json", .body = *std::move(json) + "\n"};
}

}  // namespace foreshock::query::internal
