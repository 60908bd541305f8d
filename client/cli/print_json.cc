#include "client/cli/print_json.h"

#include <google/protobuf/util/json_util.h>

#include "client/cli/say.h"

namespace foreshock::cli {

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for Any and Struct fields, which the contract does not have.
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : std::string();
}

void PrintJson(const google::protobuf::Message& message) {
  const std::string json = ToJson(message);
  SayExact(json);
  if (json.empty() || json.back() != '\n') SayExact("\n");
}

}  // namespace foreshock::cli
