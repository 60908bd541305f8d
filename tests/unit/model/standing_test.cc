#include "daemon/model/standing.h"

#include <gtest/gtest.h>

namespace foreshock::model {
namespace {

TEST(StandingTest, Table) {
  const struct {
    v1::AlertState state;
    bool run_is_over;
    bool silenced;
    v1::AlertStanding standing;
  } cases[] = {
      {v1::ALERT_STATE_PENDING, false, false, v1::ALERT_STANDING_PENDING},
      {v1::ALERT_STATE_PENDING, true, true, v1::ALERT_STANDING_PENDING},
      {v1::ALERT_STATE_FIRING, false, false, v1::ALERT_STANDING_FIRING},
      {v1::ALERT_STATE_FIRING, false, true, v1::ALERT_STANDING_SILENCED},
      {v1::ALERT_STATE_FIRING, true, false, v1::ALERT_STANDING_RUN_ENDED},
      {v1::ALERT_STATE_FIRING, true, true, v1::ALERT_STANDING_RUN_ENDED},
      {v1::ALERT_STATE_RESOLVED, false, true, v1::ALERT_STANDING_RESOLVED},
      {v1::ALERT_STATE_RESOLVED, true, false, v1::ALERT_STANDING_RESOLVED},
      {v1::ALERT_STATE_UNSPECIFIED, false, false, v1::ALERT_STANDING_UNSPECIFIED},
  };
  for (const auto& given : cases) {
    v1::Alert alert;
    alert.set_state(given.state);
    EXPECT_EQ(StandingOf(alert, given.run_is_over, given.silenced), given.standing)
        << given.state << given.run_is_over << given.silenced;
  }
}

}  // namespace
}  // namespace foreshock::model
