#include "daemon/notify/notifier.h"

#include "absl/strings/str_cat.h"

namespace foreshock::notify {

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
