// --steps A:B as typed: both ends inclusive, either may be missing; "420" is one step.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace foreshock::cli {

struct StepsArgument {
  std::optional<int64_t> first;
  std::optional<int64_t> last;
};

// Error: what was typed and what is allowed.
absl::StatusOr<StepsArgument> ParseSteps(absl::string_view text);

}  // namespace foreshock::cli
