// Messages as JSON, in the form the daemon's /api/v1 uses (proto3 JSON with the field names of
// proto/, zeroes written out), so that a script can read either.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace foreshock::cli {

std::string ToJson(const google::protobuf::Message& message);
// To stdout, indented, with a line feed.
void PrintJson(const google::protobuf::Message& message);

}  // namespace foreshock::cli
