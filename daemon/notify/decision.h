// What one receiver is to be told of one alert, and why. Pure functions of the stored row, of what
// the receiver has taken, of the run's end and of the time.
//
//   const Decision decision =
//       DecideNews({.row = &row, .delivery = FindDelivery(row, "oncall"), .now = now});
//   if (decision.tell == Tell::kFiring) ...   // decision.why: kNew, kRisen, ...
//
// News is told once: that an alert fires, is taken on, is over. State is shown again and again.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"
#include "daemon/notify/severity.h"

namespace foreshock::notify {

// A run has ended, or no rank sends for it. Its alerts stay firing in the store for ever, so the
// daemon tells receivers that they are over.
struct RunEnd {
  std::string why{};  // "the run failed"
  absl::Time at{};
  absl::Time told_at{};  // from then on its alerts are told as over
  bool deleted = false;  // alerts that nobody was told of are dropped
};

enum class Tell { kNothing, kFiring, kAcknowledged, kResolved };

enum class Why {
  // Something is told.
  kNew,           // it fires, and the receiver was not told
  kRisen,         // it is more severe than the receiver was told
  kRunGoesOn,     // it was told as over with its run, which goes on, and it fires
  kOverUntold,    // it was over before the receiver could be told: both are told
  kTakenOn,       // someone has acknowledged it
  kOver,          // it has recovered
  kRunEnded,      // its run has ended
  kMuted,         // state: a silence has begun, and the receiver knows the alert
  kUnmuted,       // state: the silence has ended
  kShownAgain,    // state: nothing has changed, and it is repeated
  kShownAtStart,  // state: this process has not shown it yet
  // Nothing is told.
  kTold,        // the receiver knows that it fires
  kEndTold,     // the receiver knows that it is over
  kNeverTold,   // it is over, and the receiver never heard of it
  kKnownTaken,  // someone has acknowledged it at this severity
  kGivenUp,     // the receiver refused it
  kFiltered,    // another route's, by severity_min or match
  kSilenced,    // and the receiver does not know the alert, or wants news
};
// "new", "run_goes_on", ...
absl::string_view WhyName(Why why);

struct Decision {
  Tell tell = Tell::kNothing;
  Why why = Why::kTold;
  // State: a silence holds. The receiver is shown that the alert fires, for it would take silence
  // for the end, and is to page nobody.
  bool muted = false;
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Whether a receiver wants to hear that an alert fires.
enum class Gate { kOpen, kFiltered, kSilenced };

struct Situation {
  const model::AlertRow* row = nullptr;
  const model::Delivery* delivery = nullptr;  // what the receiver has taken; null: nothing
  const RunEnd* run_end = nullptr;            // null: the run goes on
  absl::Time now{};
  // Asked only where the receiver would be told that the alert fires. Unset: open.
  std::function<Gate()> gate{};
  // What the receiver refused since the start: its beginning at this severity, its end.
  std::optional<Severity> given_up{};
  bool end_given_up = false;
  // State: what the receiver was shown last since the start.
  std::optional<Decision> shown{};
};

// Whether the alert has recovered, or its run has ended for long enough.
bool IsOver(const model::AlertRow& row, const RunEnd* run_end, absl::Time now);

// For receivers that want news.
Decision DecideNews(const Situation& situation);

// For receivers that want the state. kShownAgain is due only once in a while.
Decision DecideState(const Situation& situation);

// How long the end of an alert is repeated to a receiver that wants the state.
inline constexpr absl::Duration kEndRepeated = absl::Minutes(15);

}  // namespace foreshock::notify
