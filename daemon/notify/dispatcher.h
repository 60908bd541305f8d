// Decides which alerts are told to whom, once: a firing alert when it fires, its end when it was
// told. What was told is kept in the alert's stored row, so a restart tells nothing twice.
//
//   Dispatcher dispatcher({{{.notifier = &log, .severity_min = Severity::kInfo}}});
//   store.Write(batch);                                   // first the commit, with the alert rows
//   for (auto& changed : dispatcher.Dispatch(rows)) ...   // then people; write the changed rows
//   back
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/rows.pb.h"
#include "daemon/notify/notifier.h"

namespace foreshock {

enum class Severity { kInfo, kWarning, kCritical };

// "info", "warning" or "critical".
absl::StatusOr<Severity> ParseSeverity(absl::string_view text);

struct NotifierRoute {
  Notifier* notifier = nullptr;  // outlives the dispatcher
  Severity severity_min = Severity::kInfo;
};

// Thread-compatible.
class Dispatcher {
 public:
  explicit Dispatcher(std::vector<NotifierRoute> routes) : routes_(std::move(routes)) {}

  // `rows` are committed. Tells what has not been told: firing once per alert id (and once more
  // when its severity has risen and the row says so by notified_firing = false), resolved once and
  // only after firing was told. A flag is set when every route either took the message or does not
  // want its severity; routes that took it are not asked again while this process lives.
  // Returns the rows whose flags changed, for the store; the others may be given again to retry.
  std::vector<model::AlertRow> Dispatch(absl::Span<const model::AlertRow> rows);

  // Per (notifier, result): "sent", "failed", "filtered" (severity), "repeated" (told before).
  const std::map<std::pair<std::string, std::string>, uint64_t>& counts() const { return counts_; }

 private:
  // `only`: names of the routes that are asked; null: all.
  bool Tell(const v1::Alert& alert, NotificationKind kind, const std::vector<std::string>* only);

  // Routes that took a message of the alert's start that not all have taken yet; unset if there is
  // no such message.
  std::optional<std::vector<std::string>> PartlyTold(const std::string& id) const;
  void Forget(const std::string& id);

  using PartKey = std::tuple<std::string, NotificationKind, Severity>;  // of an alert id

  const std::vector<NotifierRoute> routes_;
  std::map<std::pair<std::string, std::string>, uint64_t> counts_;
  // Taken by some routes and not yet by all: names that took it.
  std::map<PartKey, std::vector<std::string>> partly_told_;
};

}  // namespace foreshock
