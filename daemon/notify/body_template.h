// The body of a webhook in a receiver's own words: a Mustache template over the JSON of
// docs/webhook.md.
//
//   FORESHOCK_ASSIGN_OR_RETURN(auto text, BodyTemplate::Parse("teams.mustache", file, true));
//   const std::string body = text->Render(message);
//
// {{name}} is the value, escaped for a text of JSON; {{{name}}} is the bare value.
// {{#name}}...{{/name}} shows its inside where the value is not empty, false or absent, and for a
// list once for each element. {{^name}}...{{/name}} shows its inside everywhere else. Elements of a
// list also have `first` and `last`. Partials and other delimiters are refused.
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

  // `name` names the file in messages. With `json` the body of an example must be JSON. Errors:
  // InvalidArgument with name:line:column, what is wrong and what is allowed.
  static absl::StatusOr<std::unique_ptr<BodyTemplate>> Parse(const std::string& name,
                                                             const std::string& text, bool json);
  // The same from a file. Errors name it: NotFound, PermissionDenied, InvalidArgument.
  static absl::StatusOr<std::unique_ptr<BodyTemplate>> Read(const std::string& path, bool json);

  virtual ~BodyTemplate() = default;
  virtual std::string Render(const nlohmann::json& message) = 0;
};

}  // namespace foreshock::notify
