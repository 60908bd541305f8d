// How an alert stands now, for people. Every surface that says what fires uses this function.
//
//   alert.set_standing(StandingOf(alert, run_is_over, !silenced_by.empty()));
#pragma once

#include "foreshock/v1/query.pb.h"

namespace foreshock::model {

// `run_is_over`: its run has ended, or no rank has sent for it for so long that nobody expects one.
inline v1::AlertStanding StandingOf(const v1::Alert& alert, bool run_is_over, bool silenced) {
  switch (alert.state()) {
    case v1::ALERT_STATE_PENDING:
      return v1::ALERT_STANDING_PENDING;
    case v1::ALERT_STATE_RESOLVED:
      return v1::ALERT_STANDING_RESOLVED;
    case v1::ALERT_STATE_FIRING:
      if (run_is_over) return v1::ALERT_STANDING_RUN_ENDED;
      return silenced ? v1::ALERT_STANDING_SILENCED : v1::ALERT_STANDING_FIRING;
    default:
      return v1::ALERT_STANDING_UNSPECIFIED;
  }
}

}  // namespace foreshock::model
