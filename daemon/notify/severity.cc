#include "daemon/notify/severity.h"

namespace foreshock::notify {

std::optional<Severity> ParseSeverity(absl::string_view text) {
  for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kCritical}) {
    if (text == SeverityName(severity)) return severity;
  }
  return std::nullopt;
}

absl::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "";
}

}  // namespace foreshock::notify
