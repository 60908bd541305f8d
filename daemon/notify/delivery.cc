#include "daemon/notify/delivery.h"

#include <algorithm>

namespace foreshock::notify {
namespace {

// With the last message the whole alert is over, unless it fires on in a run that has ended.
void CloseDelivery(const v1::Alert& alert, model::Delivery* delivery) {
  const bool over = std::all_of(delivery->told().begin(), delivery->told().end(),
                                [](const auto& told) { return told.over(); });
  if (over && alert.state() == v1::ALERT_STATE_RESOLVED) delivery->set_resolved(true);
}

}  // namespace

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
    } else if (told.over()) {
      known->set_over(true);
    }
  }
  if (delivery.acknowledged()) own->set_acknowledged(true);
  if (delivery.resolved()) own->set_resolved(true);
}

bool WasTold(const model::Delivery* delivery) {
  return delivery != nullptr && !delivery->told().empty();
}

std::optional<Severity> StandingSeverity(const model::Delivery* delivery) {
  std::optional<Severity> highest;
  if (delivery == nullptr) return highest;
  for (const model::Delivery::Told& told : delivery->told()) {
    if (told.over()) continue;
    const Severity severity = SeverityOrCritical(told.severity());
    highest = std::max(highest.value_or(severity), severity);
  }
  return highest;
}

void AddTold(const v1::Alert& alert, const std::string& group, absl::Time now,
             model::Delivery* delivery) {
  const Severity severity = SeverityOf(alert);
  if (StandingSeverity(delivery) >= severity) return;
  model::Delivery::Told* told = delivery->add_told();
  told->set_severity(std::string(SeverityName(severity)));
  told->set_group(group);
  told->set_time_unix_ns(absl::ToUnixNanos(now));
}

void EndTold(const v1::Alert& alert, const std::string& group, model::Delivery* delivery) {
  for (model::Delivery::Told& told : *delivery->mutable_told()) {
    if (told.group() == group) told.set_over(true);
  }
  CloseDelivery(alert, delivery);
}

void EndAllTold(const v1::Alert& alert, model::Delivery* delivery) {
  for (model::Delivery::Told& told : *delivery->mutable_told()) told.set_over(true);
  CloseDelivery(alert, delivery);
}

}  // namespace foreshock::notify
