// JSON files that people and other programs wrote, read with suspicion.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace foreshock::proxy {

// `text` of `file`; an error names the byte. A name that comes twice in one object is an error, and
// so is a nesting of more than 64.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view file, absl::string_view text);
// The same, with the members in the order of the text.
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view file,
                                                        absl::string_view text);

}  // namespace foreshock::proxy
