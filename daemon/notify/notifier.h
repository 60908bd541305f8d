// Something that tells people about alerts: a page, a chat, a log. Who is told what and when is
// channel.h's business; here one message is put into one receiver's words and handed over.
//
//   const SendResult result = notifier->Send(message);
//   if (result.outcome == SendResult::Outcome::kTaken) ...   // never send it again
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"

namespace foreshock::notify {

enum class Severity { kInfo, kWarning, kCritical };

// "info", "warning" or "critical"; unset for anything else.
std::optional<Severity> ParseSeverity(absl::string_view text);
absl::string_view SeverityName(Severity severity);

// Of an alert. A rule's file was checked for it; whatever else comes is better told than lost.
inline Severity SeverityOf(const v1::Alert& alert) {
  return ParseSeverity(alert.severity()).value_or(Severity::kCritical);
}

// What the receiver of that name has taken of the alert; null: nothing.
const model::Delivery* FindDelivery(const model::AlertRow& row, absl::string_view notifier);
// Puts in what `delivery` says beyond what the row has of the same notifier.
void MergeDelivery(const model::Delivery& delivery, model::AlertRow* row);

// So long the end of an alert is repeated to a receiver that is told the state.
inline constexpr absl::Duration kEndRepeated = absl::Minutes(15);

// A run that has ended, or that nobody speaks for: what fires in it will fire for ever, and the
// store says so; who was told of it is told that it is over.
struct RunEnd {
  std::string why{};  // "the run failed"
  absl::Time at{};
  absl::Time told_at{};  // its alerts are told as over from then on
  bool deleted = false;  // and those that nobody was told of are none any more
};

enum class MessageKind { kFiring, kAcknowledged, kResolved };

// Alerts that are told together.
struct Message {
  MessageKind kind = MessageKind::kFiring;
  // The message's stable name, the same for its beginning and its end, over restarts: at most 200
  // characters of [0-9a-zA-Z/]. A receiver that has it twice has the same message twice.
  std::string group{};
  // The gravest first; not empty. With kFiring one may be over already: it is told all the same.
  // A notifier that is told the state (resend) gets all alerts, those that ended too.
  std::vector<std::shared_ptr<const model::AlertRow>> alerts{};
  std::map<std::string, RunEnd> ended_runs{};  // by name, of those whose alerts are told as over
  absl::Time now{};
};

// Since when an alert of the message is over for people, by itself or because its run ended.
// Unset: it fires.
std::optional<absl::Time> OverSince(const Message& message, const model::AlertRow& row);
// "the run failed, it fired until then"; "" unless the run's end is what ended it.
std::string EndReason(const Message& message, const model::AlertRow& row);

// A run goes on in a new attempt: no alert, but what people look for when one comes.
struct RunChange {
  std::string run{};
  uint32_t attempt = 0;  // >= 2
  uint32_t world_size = 0;
  std::optional<int64_t> resume_step{};  // the first it will run, if it said so
  std::optional<int64_t> last_step{};    // that the attempt before it closed
  absl::Time at{};
};

struct SendResult {
  enum class Outcome {
    kTaken,    // the receiver has it
    kRetry,    // it has not, or nobody knows; later perhaps
    kRefused,  // it will never take this message
  };
  Outcome outcome = Outcome::kTaken;
  absl::Status status{};         // of the others: why, without secrets
  absl::Duration retry_after{};  // kRetry: the receiver asks not to be asked before
};

// Used by one thread, but for Cancel.
class Notifier {
 public:
  virtual ~Notifier() = default;
  // Bounded in time.
  virtual SendResult Send(const Message& message) = 0;
  // The same, for a receiver that has a place for such a thing.
  virtual SendResult SendChange(const RunChange&) { return {}; }
  // Makes a Send that runs, and all after it, end soon with kRetry. Thread-safe.
  virtual void Cancel() {}
};

}  // namespace foreshock::notify
