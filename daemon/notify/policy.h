// Which messages a receiver is due, made of the decisions about single alerts. There are two
// policies: one for receivers that want news, and one for those that want the state.
//
//   std::unique_ptr<Policy> policy = NewsPolicy({.notifier = "oncall"});
//   const Plan plan = policy->Due(&alerts, moment);
//   for (const Outgoing& message : plan.messages) ...   // in this order; then ask again
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"
#include "daemon/notify/decision.h"
#include "daemon/notify/notifier.h"

namespace foreshock::notify {

// An alert as the channel of one receiver keeps it.
struct TrackedAlert {
  std::shared_ptr<const model::AlertRow> row{};  // with what the receiver has taken
  uint64_t version = 0;
  bool unrecorded = false;             // the store does not know yet what the receiver has taken
  std::optional<Severity> given_up{};  // the receiver refused its beginning, at this severity
  bool end_given_up = false;           // and its end
  std::optional<Decision> shown{};     // state: what the receiver was shown last
  absl::Time sent_at = absl::InfinitePast();        // and when; steady
  absl::Time waits_since = absl::InfiniteFuture();  // something is to be told since then; steady
  bool counted_out = false;                         // as filtered or silenced
  bool held_back = false;                           // by the limit of messages
};
using TrackedAlerts = std::map<std::string, TrackedAlert>;  // by id

// When and among what the alerts are judged.
struct Moment {
  absl::Time now{};                                         // the time of day
  absl::Time steady{};                                      // for waits
  bool last = false;                                        // the process ends: wait for nothing
  const std::map<std::string, RunEnd>* run_ends = nullptr;  // by run, also those not told yet
  std::function<Gate(const v1::Alert&)> gate{};

  const RunEnd* RunEndOf(const v1::Alert& alert) const;
  bool IsOver(const model::AlertRow& row) const;
};

// A message that is due.
struct Outgoing {
  MessageKind kind = MessageKind::kFiring;
  std::string group{};
  std::vector<TrackedAlert*> alerts{};  // the most severe first; not empty
};

struct Plan {
  std::vector<Outgoing> messages{};
  absl::Time next = absl::InfiniteFuture();  // when something will be due; steady
};

// Used by one thread.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision Decide(const TrackedAlert& alert, const Moment& moment) const = 0;
  // Keeps `waits_since` of the alerts. What is due after these messages were taken is in the next
  // plan.
  virtual Plan Due(TrackedAlerts* alerts, const Moment& moment) const = 0;
  // What the receiver has taken of the alert once it took the message.
  virtual model::Delivery AfterTaken(const Outgoing& message, const TrackedAlert& alert,
                                     const Moment& moment) const = 0;
};

struct NewsOptions {
  std::string notifier{};
  // The first alert of a run waits so long for others, which come along. Zero: each goes alone.
  absl::Duration group_wait{};
  // The end of every message of an alert is told, not of the newest one alone.
  bool end_every_group = false;
};
std::unique_ptr<Policy> NewsPolicy(NewsOptions options);

struct StateOptions {
  std::string notifier{};
  absl::Duration resend = absl::Minutes(1);  // how often the state is shown
};
std::unique_ptr<Policy> StatePolicy(StateOptions options);

}  // namespace foreshock::notify
