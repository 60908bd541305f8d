#include "daemon/notify/decision.h"

#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {

std::ostream& operator<<(std::ostream& out, const Decision& decision) {
  const char* const tells[] = {"nothing", "firing", "acknowledged", "resolved"};
  return out << tells[static_cast<int>(decision.tell)] << ": " << WhyName(decision.why)
             << (decision.muted ? ", muted" : "");
}

namespace {

constexpr v1::AlertState kFires = v1::ALERT_STATE_FIRING;
constexpr v1::AlertState kRecovered = v1::ALERT_STATE_RESOLVED;

constexpr Decision kShownFiring{Tell::kFiring, Why::kNew};
constexpr Decision kShownMuted{Tell::kFiring, Why::kMuted, true};
constexpr Decision kShownOver{Tell::kResolved, Why::kOver};

// What the receiver has taken: the messages by severity, "-" before one whose end was told.
struct Taken {
  std::vector<std::string> told{};
  bool acknowledged = false;
  bool resolved = false;
};

// How the run stands.
enum class Run { kGoesOn, kEnded, kEndTold, kDeleted };

struct Case {
  std::string name;
  std::string severity = "warning";
  v1::AlertState state = kFires;
  Taken taken{};
  Run run = Run::kGoesOn;
  std::string acknowledged{};  // at this severity; "": nobody
  Gate gate = Gate::kOpen;
  std::optional<Severity> given_up{};
  bool end_given_up = false;
  absl::Duration over_for{};        // a recovered alert: since when
  std::optional<Decision> shown{};  // of a receiver of the state
  Decision expected{};
};

Decision Decide(const Case& given, Decision (*decide)(const Situation&)) {
  const auto row = Firing("a", given.severity);
  row->mutable_alert()->set_state(given.state);
  if (given.state == kRecovered) row->set_ended_unix_ns(absl::ToUnixNanos(kNow - given.over_for));
  if (!given.acknowledged.empty()) {
    row->mutable_alert()->mutable_acknowledgement()->set_severity(given.acknowledged);
  }
  model::Delivery delivery;
  for (const std::string& severity : given.taken.told) {
    model::Delivery::Told* told = delivery.add_told();
    told->set_over(severity[0] == '-');
    told->set_severity(severity.substr(told->over() ? 1 : 0));
  }
  delivery.set_acknowledged(given.taken.acknowledged);
  delivery.set_resolved(given.taken.resolved);
  RunEnd end{.why = "the run failed", .at = kNow, .told_at = kNow + absl::Minutes(15)};
  if (given.run == Run::kEndTold || given.run == Run::kDeleted) end.told_at = kNow - given.over_for;
  end.deleted = given.run == Run::kDeleted;
  return decide({.row = row.get(),
                 .delivery = given.taken.told.empty() ? nullptr : &delivery,
                 .run_end = given.run == Run::kGoesOn ? nullptr : &end,
                 .now = kNow,
                 .gate = [&given] { return given.gate; },
                 .given_up = given.given_up,
                 .end_given_up = given.end_given_up,
                 .shown = given.shown});
}

const Case kNewsCases[] = {
    // The beginning.
    {.name = "it fires", .expected = {Tell::kFiring, Why::kNew}},
    {.name = "nobody knows the severity, and it is told",
     .severity = "urgent",
     .expected = {Tell::kFiring, Why::kNew}},
    {.name = "the receiver knows",
     .taken = {{"warning"}},
     .expected = {Tell::kNothing, Why::kTold}},
    {.name = "it has become more severe",
     .severity = "critical",
     .taken = {{"warning"}},
     .expected = {Tell::kFiring, Why::kRisen}},
    {.name = "it has become less severe",
     .taken = {{"warning", "critical"}},
     .expected = {Tell::kNothing, Why::kTold}},
    {.name = "another route's",
     .gate = Gate::kFiltered,
     .expected = {Tell::kNothing, Why::kFiltered}},
    {.name = "silenced", .gate = Gate::kSilenced, .expected = {Tell::kNothing, Why::kSilenced}},
    {.name = "silenced while it rises",
     .severity = "critical",
     .taken = {{"warning"}},
     .gate = Gate::kSilenced,
     .expected = {Tell::kNothing, Why::kSilenced}},
    {.name = "the receiver refused it",
     .given_up = Severity::kWarning,
     .expected = {Tell::kNothing, Why::kGivenUp}},
    {.name = "the receiver refused it when it was less severe",
     .severity = "critical",
     .given_up = Severity::kWarning,
     .expected = {Tell::kFiring, Why::kNew}},
    // The end.
    {.name = "it has recovered",
     .state = kRecovered,
     .taken = {{"warning"}},
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "a silence does not hold the end back",
     .state = kRecovered,
     .taken = {{"warning"}},
     .gate = Gate::kSilenced,
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "it rose and recovered, and the receiver knows less",
     .severity = "critical",
     .state = kRecovered,
     .taken = {{"warning"}},
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "one of two messages has ended",
     .state = kRecovered,
     .taken = {{"warning", "-critical"}},
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "the receiver knows the end",
     .state = kRecovered,
     .taken = {{"-warning"}, false, true},
     .expected = {Tell::kNothing, Why::kEndTold}},
    {.name = "the receiver knows the end, as an older version wrote it",
     .state = kRecovered,
     .taken = {{"warning"}, false, true},
     .expected = {Tell::kNothing, Why::kEndTold}},
    {.name = "the receiver refused the end",
     .state = kRecovered,
     .taken = {{"warning"}},
     .end_given_up = true,
     .expected = {Tell::kNothing, Why::kGivenUp}},
    {.name = "it recovered before it could be told",
     .state = kRecovered,
     .expected = {Tell::kFiring, Why::kOverUntold}},
    {.name = "it recovered while it was silenced",
     .state = kRecovered,
     .gate = Gate::kSilenced,
     .expected = {Tell::kNothing, Why::kSilenced}},
    // With its run.
    {.name = "the run has ended a moment ago",
     .taken = {{"warning"}},
     .run = Run::kEnded,
     .expected = {Tell::kNothing, Why::kTold}},
    {.name = "it rises when its run has ended",
     .severity = "critical",
     .taken = {{"warning"}},
     .run = Run::kEnded,
     .expected = {Tell::kFiring, Why::kRisen}},
    {.name = "the run has ended",
     .taken = {{"warning"}},
     .run = Run::kEndTold,
     .expected = {Tell::kResolved, Why::kRunEnded}},
    {.name = "the receiver knows that the run has ended",
     .taken = {{"-warning"}},
     .run = Run::kEndTold,
     .expected = {Tell::kNothing, Why::kEndTold}},
    {.name = "the run ended before the receiver could be told",
     .run = Run::kEndTold,
     .expected = {Tell::kFiring, Why::kOverUntold}},
    {.name = "the run goes on, and it fires",
     .taken = {{"-warning"}},
     .expected = {Tell::kFiring, Why::kRunGoesOn}},
    {.name = "it recovered after it was told as over with its run",
     .state = kRecovered,
     .taken = {{"-warning"}},
     .expected = {Tell::kNothing, Why::kEndTold}},
    {.name = "the run was deleted",
     .taken = {{"warning"}},
     .run = Run::kDeleted,
     .expected = {Tell::kResolved, Why::kRunEnded}},
    {.name = "the run was deleted before the receiver could be told",
     .run = Run::kDeleted,
     .expected = {Tell::kNothing, Why::kNeverTold}},
    // Somebody takes it on.
    {.name = "somebody takes it on",
     .taken = {{"warning"}},
     .acknowledged = "warning",
     .expected = {Tell::kAcknowledged, Why::kTakenOn}},
    {.name = "the receiver knows that somebody did",
     .taken = {{"warning"}, true},
     .acknowledged = "warning",
     .expected = {Tell::kNothing, Why::kKnownTaken}},
    {.name = "somebody took it on before the receiver was told",
     .acknowledged = "warning",
     .expected = {Tell::kNothing, Why::kKnownTaken}},
    {.name = "it rises after somebody took it on",
     .severity = "critical",
     .taken = {{"warning"}, true},
     .acknowledged = "warning",
     .expected = {Tell::kFiring, Why::kRisen}},
    {.name = "it rises, and somebody takes that on",
     .severity = "critical",
     .taken = {{"warning"}},
     .acknowledged = "critical",
     .expected = {Tell::kAcknowledged, Why::kTakenOn}},
    {.name = "it is taken on and recovers",
     .state = kRecovered,
     .taken = {{"warning"}, true},
     .acknowledged = "warning",
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "it is taken on and recovers before the receiver was told",
     .state = kRecovered,
     .acknowledged = "warning",
     .expected = {Tell::kNothing, Why::kNeverTold}},
    {.name = "it is taken on, and its run goes on",
     .taken = {{"-warning"}, true},
     .acknowledged = "warning",
     .expected = {Tell::kNothing, Why::kKnownTaken}},
    {.name = "the receiver refused to hear that somebody took it on",
     .taken = {{"warning"}},
     .acknowledged = "warning",
     .end_given_up = true,
     .expected = {Tell::kNothing, Why::kGivenUp}},
};

TEST(DecideNewsTest, Table) {
  for (const Case& given : kNewsCases) {
    EXPECT_EQ(Decide(given, DecideNews), given.expected) << given.name;
  }
}

const Case kStateCases[] = {
    {.name = "it fires", .expected = {Tell::kFiring, Why::kNew}},
    {.name = "the receiver was shown it by the process before",
     .taken = {{"warning"}},
     .expected = {Tell::kFiring, Why::kShownAtStart}},
    {.name = "the receiver is shown it again",
     .taken = {{"warning"}},
     .shown = kShownFiring,
     .expected = {Tell::kFiring, Why::kShownAgain}},
    {.name = "it has become more severe",
     .severity = "critical",
     .taken = {{"warning"}},
     .shown = kShownFiring,
     .expected = {Tell::kFiring, Why::kRisen}},
    {.name = "another route's",
     .gate = Gate::kFiltered,
     .expected = {Tell::kNothing, Why::kFiltered}},
    {.name = "the receiver refused it",
     .given_up = Severity::kWarning,
     .expected = {Tell::kNothing, Why::kGivenUp}},
    {.name = "the receiver refused it when it was less severe",
     .severity = "critical",
     .given_up = Severity::kWarning,
     .expected = {Tell::kFiring, Why::kNew}},
    {.name = "somebody has taken it on: the receiver has its own way to say so",
     .taken = {{"warning"}},
     .acknowledged = "warning",
     .shown = kShownFiring,
     .expected = {Tell::kFiring, Why::kShownAgain}},
    {.name = "it recovered before it could be shown",
     .state = kRecovered,
     .expected = {Tell::kNothing, Why::kNeverTold}},
    {.name = "it has recovered",
     .state = kRecovered,
     .taken = {{"warning"}},
     .shown = kShownFiring,
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "its end is shown again",
     .state = kRecovered,
     .taken = {{"-warning"}, false, true},
     .over_for = absl::Minutes(14),
     .shown = kShownOver,
     .expected = {Tell::kResolved, Why::kShownAgain}},
    {.name = "its end is shown again after a restart",
     .state = kRecovered,
     .taken = {{"-warning"}, false, true},
     .over_for = absl::Minutes(14),
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "its end was shown for long enough",
     .state = kRecovered,
     .taken = {{"-warning"}, false, true},
     .over_for = absl::Minutes(15),
     .shown = kShownOver,
     .expected = {Tell::kNothing, Why::kEndTold}},
    {.name = "the receiver refused its end",
     .state = kRecovered,
     .taken = {{"warning"}},
     .end_given_up = true,
     .expected = {Tell::kNothing, Why::kGivenUp}},
    {.name = "its run has ended a moment ago",
     .taken = {{"warning"}},
     .run = Run::kEnded,
     .shown = kShownFiring,
     .expected = {Tell::kFiring, Why::kShownAgain}},
    {.name = "its run has ended",
     .taken = {{"warning"}},
     .run = Run::kEndTold,
     .shown = kShownFiring,
     .expected = {Tell::kResolved, Why::kRunEnded}},
    {.name = "its run ended long ago",
     .taken = {{"-warning"}},
     .run = Run::kEndTold,
     .over_for = absl::Minutes(15),
     .shown = kShownOver,
     .expected = {Tell::kNothing, Why::kEndTold}},
    {.name = "its run goes on",
     .taken = {{"-warning"}},
     .shown = kShownOver,
     .expected = {Tell::kFiring, Why::kRunGoesOn}},
    {.name = "its run was deleted",
     .taken = {{"warning"}},
     .run = Run::kDeleted,
     .shown = kShownFiring,
     .expected = {Tell::kResolved, Why::kRunEnded}},
    {.name = "its run was deleted before it could be shown",
     .run = Run::kDeleted,
     .expected = {Tell::kNothing, Why::kNeverTold}},
    {.name = "silenced before the receiver knew it",
     .gate = Gate::kSilenced,
     .expected = {Tell::kNothing, Why::kSilenced}},
    {.name = "silenced: the receiver must not take silence for its end",
     .taken = {{"warning"}},
     .gate = Gate::kSilenced,
     .shown = kShownFiring,
     .expected = {Tell::kFiring, Why::kMuted, true}},
    {.name = "silenced, as the receiver was shown",
     .taken = {{"warning"}},
     .gate = Gate::kSilenced,
     .shown = kShownMuted,
     .expected = {Tell::kFiring, Why::kShownAgain, true}},
    {.name = "silenced, and the process has started",
     .taken = {{"warning"}},
     .gate = Gate::kSilenced,
     .expected = {Tell::kFiring, Why::kShownAtStart, true}},
    {.name = "silenced, and it rises",
     .severity = "critical",
     .taken = {{"warning"}},
     .gate = Gate::kSilenced,
     .shown = kShownMuted,
     .expected = {Tell::kFiring, Why::kRisen, true}},
    {.name = "the silence has ended",
     .taken = {{"warning"}},
     .shown = kShownMuted,
     .expected = {Tell::kFiring, Why::kUnmuted}},
    {.name = "silenced, and it has recovered",
     .state = kRecovered,
     .taken = {{"warning"}},
     .gate = Gate::kSilenced,
     .shown = kShownMuted,
     .expected = {Tell::kResolved, Why::kOver}},
    {.name = "silenced, and its run goes on after its end was shown",
     .taken = {{"-warning"}},
     .gate = Gate::kSilenced,
     .expected = {Tell::kNothing, Why::kSilenced}},
};

TEST(DecideStateTest, Table) {
  for (const Case& given : kStateCases) {
    EXPECT_EQ(Decide(given, DecideState), given.expected) << given.name;
  }
}

TEST(DecideTest, WithoutAGateEveryAlertIsTheReceivers) {
  const auto row = Firing("a");
  const Decision told{Tell::kFiring, Why::kNew};
  EXPECT_EQ(DecideNews({.row = row.get(), .now = kNow}), told);
  EXPECT_EQ(DecideState({.row = row.get(), .now = kNow}), told);
}

TEST(WhyTest, EveryReasonHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int why = 0; why <= static_cast<int>(Why::kSilenced); ++why) {
    const std::string name(WhyName(static_cast<Why>(why)));
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

}  // namespace
}  // namespace foreshock::notify
