// What one receiver has taken of an alert: the messages that told it, and the end of each. It
// stands in the alert's stored row, so a restart knows it.
//
//   const model::Delivery* delivery = FindDelivery(row, "oncall");
//   if (StandingSeverity(delivery) < SeverityOf(row.alert())) ...   // it has become more severe
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"
#include "daemon/notify/severity.h"

namespace foreshock::notify {

// Null: the receiver of that name has taken nothing.
const model::Delivery* FindDelivery(const model::AlertRow& row, absl::string_view notifier);

// Adds to the row what `delivery` says beyond it. Nothing is ever taken away.
void MergeDelivery(const model::Delivery& delivery, model::AlertRow* row);

// Whether the receiver was ever told that the alert fires.
bool WasTold(const model::Delivery* delivery);

// The highest severity of the messages whose end was not told; unset: there is none.
std::optional<Severity> StandingSeverity(const model::Delivery* delivery);

// The receiver took a message of that name: the alert fires. Changes nothing if an equally severe
// message stands.
void AddTold(const v1::Alert& alert, const std::string& group, absl::Time now,
             model::Delivery* delivery);

// The receiver took the end of the message of that name, or of all messages.
void EndTold(const v1::Alert& alert, const std::string& group, model::Delivery* delivery);
void EndAllTold(const v1::Alert& alert, model::Delivery* delivery);

}  // namespace foreshock::notify
