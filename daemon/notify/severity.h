// How severe an alert is, as a value that compares.
//
//   if (SeverityOf(alert) >= Severity::kWarning) ...
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::notify {

enum class Severity { kInfo, kWarning, kCritical };

// "info", "warning" or "critical"; unset for anything else.
std::optional<Severity> ParseSeverity(absl::string_view text);
absl::string_view SeverityName(Severity severity);

// Text that is no severity counts as critical: the daemon rather sends a page too many than none.
inline Severity SeverityOrCritical(absl::string_view text) {
  return ParseSeverity(text).value_or(Severity::kCritical);
}
inline Severity SeverityOf(const v1::Alert& alert) { return SeverityOrCritical(alert.severity()); }

}  // namespace foreshock::notify
