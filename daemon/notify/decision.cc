#include "daemon/notify/decision.h"

#include "daemon/notify/delivery.h"

namespace foreshock::notify {
namespace {

// Why the receiver does not want to hear that the alert fires; unset: it does.
std::optional<Why> HeldBack(const Situation& situation) {
  const Severity severity = SeverityOf(situation.row->alert());
  if (situation.given_up.has_value() && *situation.given_up >= severity) return Why::kGivenUp;
  switch (situation.gate ? situation.gate() : Gate::kOpen) {
    case Gate::kOpen:
      return std::nullopt;
    case Gate::kFiltered:
      return Why::kFiltered;
    case Gate::kSilenced:
      return Why::kSilenced;
  }
  return std::nullopt;
}

bool Recovered(const model::AlertRow& row) {
  return row.alert().state() == v1::ALERT_STATE_RESOLVED;
}

bool TakenOn(const v1::Alert& alert) {
  return alert.has_acknowledgement() &&
         SeverityOrCritical(alert.acknowledgement().severity()) >= SeverityOf(alert);
}

// Why the receiver should hear that the alert fires; unset: it should not.
std::optional<Why> FiringNews(const Situation& situation) {
  const std::optional<Severity> standing = StandingSeverity(situation.delivery);
  if (standing.has_value()) {
    const bool over = IsOver(*situation.row, situation.run_end, situation.now);
    if (!over && SeverityOf(situation.row->alert()) > *standing) return Why::kRisen;
    return std::nullopt;
  }
  const bool ended = Recovered(*situation.row) || situation.run_end != nullptr;
  if (WasTold(situation.delivery)) {
    return ended ? std::nullopt : std::optional(Why::kRunGoesOn);
  }
  if (situation.run_end != nullptr && situation.run_end->deleted) return std::nullopt;
  return ended ? Why::kOverUntold : Why::kNew;
}

// How long the end of an alert that is over is repeated.
absl::Time RepeatedUntil(const Situation& situation) {
  return kEndRepeated + (Recovered(*situation.row)
                             ? absl::FromUnixNanos(situation.row->ended_unix_ns())
                             : situation.run_end->told_at);
}

Why WhyOver(const Situation& situation) {
  return Recovered(*situation.row) ? Why::kOver : Why::kRunEnded;
}

bool Shown(const Situation& situation, Tell tell) {
  return situation.shown.has_value() && situation.shown->tell == tell;
}

// Why the receiver is shown now that the alert fires, silenced or not.
Why WhyShownFiring(const Situation& situation, bool muted) {
  const std::optional<Severity> standing = StandingSeverity(situation.delivery);
  if (!standing.has_value()) return WasTold(situation.delivery) ? Why::kRunGoesOn : Why::kNew;
  if (*standing < SeverityOf(situation.row->alert())) return Why::kRisen;
  if (!Shown(situation, Tell::kFiring)) return Why::kShownAtStart;
  if (situation.shown->muted != muted) return muted ? Why::kMuted : Why::kUnmuted;
  return Why::kShownAgain;
}

Decision DecideStateOfOver(const Situation& situation) {
  if (!WasTold(situation.delivery)) return {Tell::kNothing, Why::kNeverTold};
  if (situation.now >= RepeatedUntil(situation)) return {Tell::kNothing, Why::kEndTold};
  if (situation.end_given_up) return {Tell::kNothing, Why::kGivenUp};
  return {Tell::kResolved,
          Shown(situation, Tell::kResolved) ? Why::kShownAgain : WhyOver(situation)};
}

}  // namespace

absl::string_view WhyName(Why why) {
  switch (why) {
    case Why::kNew:
      return "new";
    case Why::kRisen:
      return "risen";
    case Why::kRunGoesOn:
      return "run_goes_on";
    case Why::kOverUntold:
      return "over_untold";
    case Why::kTakenOn:
      return "taken_on";
    case Why::kOver:
      return "over";
    case Why::kRunEnded:
      return "run_ended";
    case Why::kMuted:
      return "muted";
    case Why::kUnmuted:
      return "unmuted";
    case Why::kShownAgain:
      return "shown_again";
    case Why::kShownAtStart:
      return "shown_at_start";
    case Why::kTold:
      return "told";
    case Why::kEndTold:
      return "end_told";
    case Why::kNeverTold:
      return "never_told";
    case Why::kKnownTaken:
      return "known_taken";
    case Why::kGivenUp:
      return "given_up";
    case Why::kFiltered:
      return "filtered";
    case Why::kSilenced:
      return "silenced";
  }
  return "";
}

bool IsOver(const model::AlertRow& row, const RunEnd* run_end, absl::Time now) {
  return Recovered(row) || (run_end != nullptr && now >= run_end->told_at);
}

Decision DecideNews(const Situation& situation) {
  const model::Delivery* const delivery = situation.delivery;
  const v1::Alert& alert = situation.row->alert();
  const bool stands = StandingSeverity(delivery).has_value();
  const bool taken_on = TakenOn(alert);
  if (const std::optional<Why> news = FiringNews(situation); news.has_value() && !taken_on) {
    if (const std::optional<Why> why = HeldBack(situation)) return {Tell::kNothing, *why};
    return {Tell::kFiring, *news};
  }
  if (IsOver(*situation.row, situation.run_end, situation.now)) {
    if (!WasTold(delivery)) return {Tell::kNothing, Why::kNeverTold};
    if (!stands || delivery->resolved()) return {Tell::kNothing, Why::kEndTold};
    if (situation.end_given_up) return {Tell::kNothing, Why::kGivenUp};
    return {Tell::kResolved, WhyOver(situation)};
  }
  if (!taken_on) return {Tell::kNothing, Why::kTold};
  if (!stands || delivery->acknowledged()) return {Tell::kNothing, Why::kKnownTaken};
  if (situation.end_given_up) return {Tell::kNothing, Why::kGivenUp};
  return {Tell::kAcknowledged, Why::kTakenOn};
}

Decision DecideState(const Situation& situation) {
  if (IsOver(*situation.row, situation.run_end, situation.now)) {
    return DecideStateOfOver(situation);
  }
  const std::optional<Why> held_back = HeldBack(situation);
  const bool known = StandingSeverity(situation.delivery).has_value();
  const bool muted = held_back == Why::kSilenced && known;
  if (held_back.has_value() && !muted) return {Tell::kNothing, *held_back};
  return {Tell::kFiring, WhyShownFiring(situation, muted), muted};
}

}  // namespace foreshock::notify
