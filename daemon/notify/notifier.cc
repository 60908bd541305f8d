#include "daemon/notify/notifier.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

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
    const auto known = std::find_if(
        own->mutable_told()->begin(), own->mutable_told()->end(), [&told](const auto& other) {
          return other.severity() == told.severity() && other.group() == told.group();
        });
    if (known == own->mutable_told()->end()) {
      *own->add_told() = told;
    } else if (told.run_ended()) {
      known->set_run_ended(true);
    }
  }
  if (delivery.acknowledged()) own->set_acknowledged(true);
  if (delivery.resolved()) own->set_resolved(true);
}

std::optional<absl::Time> OverSince(const Message& message, const model::AlertRow& row) {
  if (row.alert().state() == v1::ALERT_STATE_RESOLVED) {
    return absl::FromUnixNanos(row.ended_unix_ns());
  }
  const auto end = message.ended_runs.find(row.alert().run());
  if (end == message.ended_runs.end()) return std::nullopt;
  return end->second.at;
}

std::string EndReason(const Message& message, const model::AlertRow& row) {
  const auto end = message.ended_runs.find(row.alert().run());
  if (end == message.ended_runs.end() || row.alert().state() == v1::ALERT_STATE_RESOLVED) return "";
  return absl::StrCat(end->second.why, ", it fired until then");
}

}  // namespace foreshock::notify
