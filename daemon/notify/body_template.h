// The body of a webhook in a receiver's own words: a Mustache template over docs/webhook.md's JSON.
//
//   FORESHOCK_ASSIGN_OR_RETURN(auto text, BodyTemplate::Parse("teams.mustache", file,
//   /*json=*/true)); const std::string body = text->Render(message);
//
// {{name}} is a value with what JSON wants escaped in a text, {{{name}}} is the bare value,
// {{#name}}...{{/name}} is there where the value is not empty, false or absent,
// {{^name}}...{{/name}} where it is, and for a list it is repeated. An element of a list also has
// `first` and `last`. Partials and other delimiters are refused.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace foreshock::notify {

// Used by one thread.
class BodyTemplate {
 public:
  static constexpr size_t kBytesMax = 64u << 10;

  // `name` stands for the file in messages. With `json` what comes of an example must be JSON.
  // Errors: InvalidArgument with name:line:column: what is wrong, what is allowed.
  static absl::StatusOr<std::unique_ptr<BodyTemplate>> Parse(const std::string& name,
                                                             const std::string& text, bool json);
  // The same from a file. NotFound, PermissionDenied, InvalidArgument, naming it.
  static absl::StatusOr<std::unique_ptr<BodyTemplate>> Read(const std::string& path, bool json);

  virtual ~BodyTemplate() = default;
  virtual std::string Render(const nlohmann::json& message) = 0;
};

}  // namespace foreshock::notify
