#include "client/cli/step_range.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace foreshock::cli {

absl::StatusOr<StepsArgument> ParseSteps(absl::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("--steps ", text,
                   ": expected FIRST:LAST, FIRST:, :LAST or one step, each >= 0, FIRST <= LAST"));
  const auto end = [&](absl::string_view part, std::optional<int64_t>& step) {
    if (part.empty()) return true;
    int64_t value = 0;
    if (!absl::SimpleAtoi(part, &value) || value < 0) return false;
    step = value;
    return true;
  };
  StepsArgument range;
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) {
    if (text.empty() || !end(text, range.first)) return bad;
    range.last = range.first;
    return range;
  }
  if (!end(text.substr(0, colon), range.first) || !end(text.substr(colon + 1), range.last)) {
    return bad;
  }
  if (range.first && range.last && *range.first > *range.last) return bad;
  return range;
}

}  // namespace foreshock::cli
