#include "daemon/notify/delivery.h"

#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

v1::Alert AlertOf(const std::string& severity, v1::AlertState state = v1::ALERT_STATE_FIRING) {
  v1::Alert alert = Firing("a", severity)->alert();
  alert.set_state(state);
  return alert;
}

TEST(MergeDeliveryTest, AddsAndNeverTakesAway) {
  model::AlertRow row;
  model::Delivery delivery;
  delivery.set_notifier("n");
  delivery.add_told()->set_severity("warning");
  MergeDelivery(delivery, &row);
  delivery.mutable_told(0)->set_over(true);
  delivery.set_resolved(true);
  MergeDelivery(delivery, &row);
  ASSERT_EQ(row.deliveries_size(), 1);
  EXPECT_EQ(row.deliveries(0).told_size(), 1);
  delivery.mutable_told(0)->set_over(false);
  delivery.set_resolved(false);
  delivery.add_told()->set_severity("critical");
  MergeDelivery(delivery, &row);
  EXPECT_TRUE(row.deliveries(0).resolved());
  EXPECT_FALSE(row.deliveries(0).acknowledged());
  EXPECT_TRUE(row.deliveries(0).told(0).over());
  EXPECT_EQ(row.deliveries(0).told_size(), 2);
  EXPECT_EQ(FindDelivery(row, "other"), nullptr);
}

TEST(DeliveryTest, AMessageStandsUntilItsEndIsTold) {
  model::Delivery delivery;
  EXPECT_FALSE(WasTold(nullptr));
  EXPECT_FALSE(WasTold(&delivery));
  EXPECT_EQ(StandingSeverity(nullptr), std::nullopt);
  AddTold(AlertOf("warning"), "a/warning", kNow, &delivery);
  AddTold(AlertOf("warning"), "a/again", kNow, &delivery);  // no more severe: nothing new
  ASSERT_EQ(delivery.told_size(), 1);
  EXPECT_EQ(delivery.told(0).group(), "a/warning");
  EXPECT_EQ(delivery.told(0).time_unix_ns(), absl::ToUnixNanos(kNow));
  AddTold(AlertOf("critical"), "a/critical", kNow, &delivery);
  EXPECT_EQ(StandingSeverity(&delivery), Severity::kCritical);
  EndTold(AlertOf("critical"), "a/critical", &delivery);
  EXPECT_EQ(StandingSeverity(&delivery), Severity::kWarning);
  EndAllTold(AlertOf("critical"), &delivery);
  EXPECT_EQ(StandingSeverity(&delivery), std::nullopt);
  EXPECT_TRUE(WasTold(&delivery));
  EXPECT_FALSE(delivery.resolved());  // it fires, in a run that has ended
}

TEST(DeliveryTest, IsResolvedWithTheEndOfTheLastMessage) {
  const v1::Alert over = AlertOf("critical", v1::ALERT_STATE_RESOLVED);
  model::Delivery delivery;
  AddTold(AlertOf("warning"), "a/warning", kNow, &delivery);
  AddTold(AlertOf("critical"), "a/critical", kNow, &delivery);
  EndTold(over, "a/critical", &delivery);
  EXPECT_FALSE(delivery.resolved());
  EndTold(over, "a/warning", &delivery);
  EXPECT_TRUE(delivery.resolved());
}

TEST(SeverityTest, IsReadAndWritten) {
  EXPECT_EQ(ParseSeverity("critical"), Severity::kCritical);
  EXPECT_EQ(ParseSeverity("page"), std::nullopt);
  EXPECT_EQ(SeverityOrCritical("page"), Severity::kCritical);
  EXPECT_EQ(SeverityName(Severity::kWarning), "warning");
}

}  // namespace
}  // namespace foreshock::notify
