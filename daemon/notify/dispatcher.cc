#include "daemon/notify/dispatcher.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"

namespace foreshock {

absl::StatusOr<Severity> ParseSeverity(absl::string_view text) {
  if (text == "info") return Severity::kInfo;
  if (text == "warning") return Severity::kWarning;
  if (text == "critical") return Severity::kCritical;
  return absl::InvalidArgumentError(
      absl::StrCat("severity '", text, "': allowed are info, warning, critical"));
}

bool Dispatcher::Tell(const v1::Alert& alert, NotificationKind kind,
                      const std::vector<std::string>* only) {
  // A rule's file was checked for its severity; whatever else comes is better told than lost.
  const Severity severity = ParseSeverity(alert.severity()).value_or(Severity::kCritical);
  // What was told of a warning says nothing of the critical alert it has become.
  const PartKey key{alert.id(), kind, severity};
  bool told_all = true;
  for (const NotifierRoute& route : routes_) {
    const std::string name(route.notifier->name());
    if (only != nullptr && std::find(only->begin(), only->end(), name) == only->end()) continue;
    std::vector<std::string>& took = partly_told_[key];
    if (severity < route.severity_min) {
      ++counts_[{name, "filtered"}];
      continue;
    }
    if (std::find(took.begin(), took.end(), name) != took.end()) continue;
    const absl::Status status = route.notifier->Send(alert, kind);
    if (status.ok()) {
      ++counts_[{name, "sent"}];
      took.push_back(name);
      continue;
    }
    told_all = false;
    ++counts_[{name, "failed"}];
    LogEvery(absl::StrCat("notify.", name), LogLevel::kError, "notify", "sending failed",
             {{"notifier", name}, {"alert", alert.id()}, {"error", status.ToString()}});
  }
  if (told_all) partly_told_.erase(key);
  return told_all;
}

std::optional<std::vector<std::string>> Dispatcher::PartlyTold(const std::string& id) const {
  std::optional<std::vector<std::string>> names;
  for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kCritical}) {
    const auto part = partly_told_.find({id, NotificationKind::kFiring, severity});
    if (part == partly_told_.end()) continue;
    if (!names.has_value()) names.emplace();
    names->insert(names->end(), part->second.begin(), part->second.end());
  }
  return names;
}

void Dispatcher::Forget(const std::string& id) {
  std::erase_if(partly_told_, [&id](const auto& part) { return std::get<0>(part.first) == id; });
}

std::vector<model::AlertRow> Dispatcher::Dispatch(absl::Span<const model::AlertRow> rows) {
  std::vector<model::AlertRow> changed;
  for (const model::AlertRow& row : rows) {
    const v1::Alert& alert = row.alert();
    model::AlertRow after = row;
    if (alert.state() == v1::ALERT_STATE_FIRING && !row.notified_firing()) {
      if (Tell(alert, NotificationKind::kFiring, nullptr)) after.set_notified_firing(true);
    } else if (alert.state() == v1::ALERT_STATE_RESOLVED && row.notified_firing() &&
               !row.notified_resolved()) {
      if (Tell(alert, NotificationKind::kResolved, nullptr)) {
        Forget(alert.id());
        after.set_notified_resolved(true);
      }
    } else if (const auto told = PartlyTold(alert.id());
               alert.state() == v1::ALERT_STATE_RESOLVED && told.has_value()) {
      // It ended before everyone could be told: its end goes to those who were.
      if (Tell(alert, NotificationKind::kResolved, &*told)) {
        Forget(alert.id());
        after.set_notified_firing(true);
        after.set_notified_resolved(true);
      }
    } else if (alert.state() != v1::ALERT_STATE_PENDING && row.notified_firing()) {
      for (const NotifierRoute& route : routes_) {
        ++counts_[{std::string(route.notifier->name()), "repeated"}];
      }
    }
    if (after.notified_firing() != row.notified_firing() ||
        after.notified_resolved() != row.notified_resolved()) {
      changed.push_back(std::move(after));
    }
  }
  return changed;
}

}  // namespace foreshock
