#include "daemon/notify/text.h"

#include "daemon/notify/log_notifier.h"
#include "tests/unit/notify/rows.h"

#include "tests/support/status_matchers.h"

namespace foreshock::notify {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(AlertLineTest, SaysWhatSomeoneWokenAtNightNeeds) {
  EXPECT_EQ(AlertLine(FullAlert(), MessageKind::kFiring),
            "FIRING critical exp-42 Delta2EntropyFalls at step 460 in layers 1, 2: "
            "attn.delta2.entropy_ratio_l1 0.61, baseline 0.78 (-21.8 %); "
            "probable fault low_precision_attention; last healthy step 400, "
            "roll back to checkpoint step-400; runbook https://example.org/r");
  EXPECT_EQ(AlertLine(FullAlert(), MessageKind::kResolved),
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
  EXPECT_EQ(AlertLine(alert, MessageKind::kFiring), "FIRING critical r NonFinite at step 7");
  alert.set_indicator("train.nonfinite");
  alert.set_value(3);
  alert.set_rank(5);
  alert.set_unit_name("loss");
  EXPECT_EQ(AlertLine(alert, MessageKind::kFiring),
            "FIRING critical r NonFinite at step 7 on rank 5 of 'loss': train.nonfinite 3");
  alert.set_baseline(0);  // no relative change to a baseline of 0
  EXPECT_EQ(AlertLine(alert, MessageKind::kFiring),
            "FIRING critical r NonFinite at step 7 on rank 5 of 'loss': train.nonfinite 3, "
            "baseline 0");
}

TEST(AlertLineTest, StaysShortForManyLayers) {
  v1::Alert alert;
  alert.set_run("r");
  alert.set_rule("X");
  alert.set_severity("info");
  for (uint32_t layer = 0; layer < 96; ++layer) alert.add_layers(layer);
  EXPECT_EQ(AlertLine(alert, MessageKind::kFiring),
            "FIRING info r X at step 0 in layers 0, 1, 2, 3, 4, 5, 6, 7 and 88 more");
  alert.set_all_layers(true);
  EXPECT_EQ(AlertLine(alert, MessageKind::kFiring), "FIRING info r X at step 0 in all layers");
}

TEST(LogNotifierTest, NeverFails) {
  LogNotifier notifier;
  const Message message = {.alerts = {RowOf(FullAlert()), RowOf(v1::Alert())}};
  EXPECT_EQ(notifier.Send(message).outcome, SendResult::Outcome::kTaken);
}

TEST(HeadlineTest, SaysHowGraveWhatWhereAndSinceWhen) {
  v1::Alert alert = FullAlert();
  alert.clear_resolved_step();
  Message message{.alerts = {RowOf(alert)}};
  EXPECT_EQ(Headline(message, 200),
            "critical: low_precision_attention in run exp-42, layers 1, 2, since step 440 "
            "(fired at 460)");
  message.alerts.push_back(RowOf(alert));
  message.alerts.push_back(RowOf(alert));
  EXPECT_EQ(Headline(message, 200),
            "critical: low_precision_attention in run exp-42, layers 1, 2, since step 440 "
            "(fired at 460) (and 2 more)");
  EXPECT_EQ(Headline({.kind = MessageKind::kResolved, .alerts = {RowOf(FullAlert())}}, 200),
            "over: low_precision_attention in run exp-42, layers 1, 2, from step 440 to 900");
  EXPECT_EQ(Headline(message, 20), "critical: low_pre...");
}

TEST(FactsTest, NamesEverythingThatIsKnownAndNothingElse) {
  v1::Alert alert = FullAlert();
  alert.clear_resolved_step();
  alert.set_attempt(2);
  alert.set_summary("Since step 460: it falls");
  alert.set_description("Roll back.");
  EXPECT_THAT(
      Facts(alert, "https://f.example/"),
      ElementsAre(Pair("What", "Since step 460: it falls"), Pair("Run", "exp-42, attempt 2"),
                  Pair("Where", "layers 1, 2"), Pair("When", "since step 440 (fired at 460)"),
                  Pair("Value", "attn.delta2.entropy_ratio_l1 0.61, baseline 0.78 (-21.8 %)"),
                  Pair("Rule", "Delta2EntropyFalls (critical)"),
                  Pair("Probable fault", "low_precision_attention"),
                  Pair("Last healthy step", "400; newest checkpoint at or before it: step-400"),
                  Pair("What to do", "Roll back."), Pair("Runbook", "https://example.org/r"),
                  Pair("More", "https://f.example/alert?run=exp-42&id=a1")));
  EXPECT_THAT(
      Facts(v1::Alert(), ""),
      ElementsAre(Pair("Run", ", attempt 0"), Pair("When", "since step 0"), Pair("Rule", " ()")));
}

TEST(RunUrlTest, EncodesTheName) {
  EXPECT_EQ(RunUrl("http://h:1", "a/b c<&"), "http://h:1/run?run=a%2Fb%20c%3C%26");
  EXPECT_EQ(RunUrl("", "a"), "");
}

TEST(AlertUrlTest, NamesRunAndAlert) {
  v1::Alert alert;
  alert.set_run("a&b");
  alert.set_id("0a1b");
  EXPECT_EQ(AlertUrl("http://h:1/prefix/", alert), "http://h:1/prefix/alert?run=a%26b&id=0a1b");
  EXPECT_EQ(AlertUrl("", alert), "");
}

TEST(ShortenTest, CutsBetweenCharacters) {
  EXPECT_EQ(Shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(Shorten("abcdefg", 6), "abc...");
  EXPECT_EQ(Shorten("ab\xc3\xa4\xc3\xa4\xc3\xa4", 6), "ab...");  // three umlauts of two bytes
  EXPECT_EQ(Shorten("abcdef", 2), "...");
}

}  // namespace
}  // namespace foreshock::notify
