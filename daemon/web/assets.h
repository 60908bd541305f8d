// The files of the page, embedded in the program. Internal to web/; what lies behind it is made at
// build time from src/ (CMakeLists.txt).
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace foreshock::web::internal {

struct Asset {
  absl::string_view name;  // "index.html"
  absl::string_view content_type;
  absl::string_view content;
};

// Empty where the web tools were missing at build time.
absl::Span<const Asset> Assets();

}  // namespace foreshock::web::internal
