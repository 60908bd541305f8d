#include "daemon/notify/notifier.h"

#include <algorithm>

namespace foreshock {

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

const model::Delivery* FindDelivery(const model::AlertRow& row, absl::string_view notifier) {
  const auto found =
      std::find_if(row.deliveries().begin(), row.deliveries().end(),
                   [notifier](const auto& delivery) { return delivery.notifier() == notifier; });
  return found == row.deliveries().end() ? nullptr : &*found;
}

void MergeDelivery(const model::Delivery& delivery, model::AlertRow* row) {
  auto own = std::find_if(
      row->mutable_deliveries()->begin(), row->mutable_deliveries()->end(),
      [&delivery](const auto& other) { return other.notifier() == delivery.notifier(); });
  if (own == row->mutable_deliveries()->end()) {
    *row->add_deliveries() = delivery;
    return;
  }
  for (const model::Delivery::Told& told : delivery.told()) {
    const bool known =
        std::any_of(own->told().begin(), own->told().end(), [&told](const auto& other) {
          return other.severity() == told.severity() && other.group() == told.group();
        });
    if (!known) *own->add_told() = told;
  }
  if (delivery.acknowledged()) own->set_acknowledged(true);
  if (delivery.resolved()) own->set_resolved(true);
}

}  // namespace foreshock
