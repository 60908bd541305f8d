// Something that tells people about alerts: a page, a chat, a log. A notifier puts one message into
// the words of one receiver and hands it over. policy.h says who is told what, and when.
//
//   const SendResult result = notifier->Send(message);
//   if (result.outcome == SendResult::Outcome::kTaken) ...   // never send it again
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"
#include "daemon/notify/decision.h"

namespace foreshock::notify {

enum class MessageKind { kFiring, kAcknowledged, kResolved };

// Alerts that are told together.
struct Message {
  MessageKind kind = MessageKind::kFiring;
  // The message's stable name, the same for its beginning and its end, over restarts: at most 200
  // characters of [0-9a-zA-Z/]. Two messages of one name and kind are the same message.
  std::string group{};
  // The most severe first; not empty. With kFiring an alert may be over already: its end follows. A
  // receiver that wants the state gets every alert with kFiring, those that are over too.
  std::vector<std::shared_ptr<const model::AlertRow>> alerts{};
  std::map<std::string, RunEnd> ended_runs{};  // by name; their alerts are told as over
  // By alert: it fires, and the receiver of the state is to page nobody until the silence ends.
  std::map<std::string, v1::Silence> silences{};
  absl::Time now{};
};

// Since when an alert of the message is over, by itself or with its run. Unset: it fires.
std::optional<absl::Time> OverSince(const Message& message, const model::AlertRow& row);
// "the run failed, it fired until then"; "" unless the alert is over with its run.
std::string EndReason(const Message& message, const model::AlertRow& row);

// A run goes on in a new attempt. That is no alert, but people look for it when one comes.
struct RunChange {
  std::string run{};
  uint32_t attempt = 0;  // >= 2
  uint32_t world_size = 0;
  std::optional<int64_t> resume_step{};  // the first that it will run, if it said so
  std::optional<int64_t> last_step{};    // the last that the attempt before closed
  absl::Time at{};
};

struct SendResult {
  enum class Outcome {
    kTaken,    // the receiver has it
    kRetry,    // it has not, or nobody knows; it may take it later
    kRefused,  // it will never take this message
  };
  Outcome outcome = Outcome::kTaken;
  absl::Status status{};         // why it was not taken, without secrets
  absl::Duration retry_after{};  // kRetry: the receiver asks not to be asked before
};

// Used by one thread, but for Cancel.
class Notifier {
 public:
  virtual ~Notifier() = default;
  // Bounded in time.
  virtual SendResult Send(const Message& message) = 0;
  // The same, for a receiver that has a place for such news.
  virtual SendResult SendChange(const RunChange&) { return {}; }
  // What is wrong with the receiver's set-up although it takes messages, as the last Send found it:
  // names for the metric foreshock_notifications_trouble.
  virtual std::set<std::string> Troubles() const { return {}; }
  // A Send that runs, and every one after it, ends soon with kRetry. Thread-safe.
  virtual void Cancel() {}
};

}  // namespace foreshock::notify
