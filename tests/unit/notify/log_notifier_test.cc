#include "daemon/notify/log_notifier.h"

#include "tests/support/status_matchers.h"

namespace foreshock {
namespace {

v1::Alert FullAlert() {
  v1::Alert alert;
  alert.set_id("a1");
  alert.set_run("exp-42");
  alert.set_rule("Delta2EntropyFalls");
  alert.set_severity("critical");
  alert.set_fault("low_precision_attention");
  alert.set_indicator("attn.delta2.entropy_ratio_l1");
  alert.add_layers(1);
  alert.add_layers(2);
  alert.set_value(0.61);
  alert.set_baseline(0.78);
  alert.set_pending_step(440);
  alert.set_firing_step(460);
  alert.set_resolved_step(900);
  alert.set_last_healthy_step(400);
  alert.set_checkpoint("step-400");
  alert.set_runbook("https://example.org/r");
  return alert;
}

TEST(AlertLineTest, SaysWhatSomeoneWokenAtNightNeeds) {
  EXPECT_EQ(AlertLine(FullAlert(), NotificationKind::kFiring),
            "FIRING critical exp-42 Delta2EntropyFalls at step 460 in layers 1, 2: "
            "attn.delta2.entropy_ratio_l1 0.61, baseline 0.78 (-21.8 %); "
            "probable fault low_precision_attention; last healthy step 400, "
            "roll back to checkpoint step-400; runbook https://example.org/r");
  EXPECT_EQ(AlertLine(FullAlert(), NotificationKind::kResolved),
            "RESOLVED critical exp-42 Delta2EntropyFalls at step 900 in layers 1, 2: "
            "attn.delta2.entropy_ratio_l1 0.61, baseline 0.78 (-21.8 %); "
            "probable fault low_precision_attention; runbook https://example.org/r");
}

TEST(AlertLineTest, LeavesOutWhatIsNotKnown) {
  v1::Alert alert;
  alert.set_run("r");
  alert.set_rule("NonFinite");
  alert.set_severity("critical");
  alert.set_pending_step(7);
  EXPECT_EQ(AlertLine(alert, NotificationKind::kFiring), "FIRING critical r NonFinite at step 7");
  alert.set_indicator("train.nonfinite");
  alert.set_value(3);
  alert.set_rank(5);
  alert.set_unit_name("loss");
  EXPECT_EQ(AlertLine(alert, NotificationKind::kFiring),
            "FIRING critical r NonFinite at step 7 on rank 5 of 'loss': train.nonfinite 3");
  alert.set_baseline(0);  // no relative change to a baseline of 0
  EXPECT_EQ(AlertLine(alert, NotificationKind::kFiring),
            "FIRING critical r NonFinite at step 7 on rank 5 of 'loss': train.nonfinite 3, "
            "baseline 0");
}

TEST(AlertLineTest, StaysShortForManyLayers) {
  v1::Alert alert;
  alert.set_run("r");
  alert.set_rule("X");
  alert.set_severity("info");
  for (uint32_t layer = 0; layer < 96; ++layer) alert.add_layers(layer);
  EXPECT_EQ(AlertLine(alert, NotificationKind::kFiring),
            "FIRING info r X at step 0 in layers 0, 1, 2, 3, 4, 5, 6, 7 and 88 more");
  alert.set_all_layers(true);
  EXPECT_EQ(AlertLine(alert, NotificationKind::kFiring), "FIRING info r X at step 0 in all layers");
}

TEST(LogNotifierTest, NeverFails) {
  LogNotifier notifier;
  EXPECT_EQ(notifier.name(), "log");
  EXPECT_OK(notifier.Send(FullAlert(), NotificationKind::kFiring));
  EXPECT_OK(notifier.Send(v1::Alert(), NotificationKind::kResolved));
}

}  // namespace
}  // namespace foreshock
