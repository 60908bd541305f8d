#include "daemon/notify/policy.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/notify/delivery.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kSecond = absl::Seconds(1);

class PolicyTest : public ::testing::Test {
 protected:
  std::shared_ptr<model::AlertRow> Add(const std::string& id,
                                       const std::string& severity = "warning",
                                       const std::string& run = "exp-42") {
    auto row = Firing(id, severity, run);
    alerts_[id].row = row;
    return row;
  }
  std::shared_ptr<model::AlertRow> AddOver(const std::string& id,
                                           const std::string& severity = "warning") {
    auto row = Add(id, severity);
    row->mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
    row->set_ended_unix_ns(absl::ToUnixNanos(now_));
    return row;
  }
  // The receiver has taken a message of that name.
  static void Knows(model::AlertRow* row, const std::string& severity, const std::string& group) {
    model::Delivery delivery;
    delivery.set_notifier("n");
    model::Delivery::Told* told = delivery.add_told();
    told->set_severity(severity);
    told->set_group(group);
    MergeDelivery(delivery, row);
  }
  Moment Now() {
    return {.now = now_, .steady = steady_, .last = last_, .run_ends = &run_ends_, .gate = gate_};
  }
  // The messages that are due: "firing a/warning: a b".
  std::vector<std::string> Due(const Policy& policy) {
    plan_ = policy.Due(&alerts_, Now());
    const char* const kinds[] = {"firing", "acknowledged", "resolved"};
    std::vector<std::string> texts;
    for (const Outgoing& message : plan_.messages) {
      std::vector<std::string> ids;
      for (const TrackedAlert* alert : message.alerts) ids.push_back(alert->row->alert().id());
      texts.push_back(absl::StrCat(kinds[static_cast<int>(message.kind)], " ", message.group, ": ",
                                   absl::StrJoin(ids, " ")));
    }
    return texts;
  }
  // The receiver takes a message, as the channel keeps it.
  void Take(const Policy& policy, const Outgoing& message) {
    for (TrackedAlert* alert : message.alerts) {
      auto row = std::make_shared<model::AlertRow>(*alert->row);
      alert->shown = policy.Decide(*alert, Now());
      MergeDelivery(policy.AfterTaken(message, *alert, Now()), row.get());
      alert->row = row;
      alert->sent_at = steady_;
    }
  }
  const model::Delivery& DeliveryTo(const std::string& id) {
    return *FindDelivery(*alerts_.at(id).row, "n");
  }

  TrackedAlerts alerts_;
  absl::Time now_ = kNow;
  absl::Time steady_ = absl::UnixEpoch() + absl::Hours(1);
  bool last_ = false;
  std::map<std::string, RunEnd> run_ends_;
  std::function<Gate(const v1::Alert&)> gate_ = [](const v1::Alert&) { return Gate::kOpen; };
  Plan plan_;
};

// ---- News.

// Whatever the alerts are and the receiver has taken of them: every message is due until it was
// taken and never again, each alert is told as often as it has news, and the plans come to an end.
TEST_F(PolicyTest, NewsIsToldOnceWhateverWasTaken) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> severities = {"info", "warning", "critical"};
  for (int round = 0; round < 300; ++round) {
    alerts_.clear();
    run_ends_.clear();
    run_ends_["ended"] = {.why = "the run failed", .at = now_, .told_at = now_};
    for (uint64_t i = 0; i < 1 + random() % 6; ++i) {
      const std::string id(1, static_cast<char>('a' + i));
      auto row = random() % 3 == 0 ? AddOver(id) : Add(id);
      row->mutable_alert()->set_severity(severities[random() % 3]);
      if (random() % 3 == 0) row->mutable_alert()->set_run("ended");
      if (random() % 3 == 0) {
        row->mutable_alert()->mutable_acknowledgement()->set_severity(severities[random() % 3]);
      }
      for (uint64_t n = random() % 3; n > 0; --n) {
        Knows(row.get(), severities[random() % 3], absl::StrCat("group", random() % 3));
      }
      alerts_[id].row = row;
    }
    const auto policy = NewsPolicy({.notifier = "n", .end_every_group = random() % 2 == 0});
    for (int plans = 0; !Due(*policy).empty(); ++plans) {
      ASSERT_LT(plans, 3) << "a beginning, and then an end";
      const std::vector<std::string> first = Due(*policy);
      ASSERT_EQ(Due(*policy), first) << "what was not taken is due again";
      for (const Outgoing& message : plan_.messages) Take(*policy, message);
    }
    for (const auto& [id, alert] : alerts_) {
      const Tell left = policy->Decide(alert, Now()).tell;
      EXPECT_TRUE(left == Tell::kNothing || left == Tell::kResolved)
          << id << ": only an end may wait, for other alerts of its message";
    }
  }
}

TEST_F(PolicyTest, TheFirstAlertOfARunWaitsForOthers) {
  const auto policy = NewsPolicy({.notifier = "n", .group_wait = 10 * kSecond});
  Add("b");
  Add("other", "warning", "exp-43");
  EXPECT_THAT(Due(*policy), IsEmpty());
  EXPECT_EQ(plan_.next, steady_ + 10 * kSecond);
  steady_ += 4 * kSecond;
  Add("a");
  Add("c", "critical");
  EXPECT_THAT(Due(*policy), IsEmpty());
  EXPECT_EQ(plan_.next, steady_ + 6 * kSecond);
  steady_ += 6 * kSecond;
  EXPECT_THAT(Due(*policy), ElementsAre("firing c/critical: c a b", "firing other/warning: other"));
  EXPECT_EQ(plan_.next, absl::InfiniteFuture());
}

TEST_F(PolicyTest, TheLastPlanWaitsForNothing) {
  const auto policy = NewsPolicy({.notifier = "n", .group_wait = 10 * kSecond});
  Add("a");
  last_ = true;
  EXPECT_THAT(Due(*policy), ElementsAre("firing a/warning: a"));
}

TEST_F(PolicyTest, AnAlertThatHasNothingToTellWaitsNoMore) {
  const auto policy = NewsPolicy({.notifier = "n", .group_wait = 10 * kSecond});
  Add("a");
  EXPECT_THAT(Due(*policy), IsEmpty());
  steady_ += 9 * kSecond;
  gate_ = [](const v1::Alert&) { return Gate::kSilenced; };
  EXPECT_THAT(Due(*policy), IsEmpty());
  EXPECT_EQ(alerts_.at("a").waits_since, absl::InfiniteFuture());
  gate_ = [](const v1::Alert&) { return Gate::kOpen; };
  EXPECT_THAT(Due(*policy), IsEmpty());
  EXPECT_EQ(plan_.next, steady_ + 10 * kSecond) << "from the silence's end on";
}

TEST_F(PolicyTest, WhatWaitsToBeSentIsKnownBySinceWhen) {
  const auto policy = NewsPolicy({.notifier = "n"});
  Knows(AddOver("over").get(), "warning", "over/warning");
  auto taken_on = Add("taken_on");
  Knows(taken_on.get(), "warning", "taken_on/warning");
  taken_on->mutable_alert()->mutable_acknowledgement()->set_severity("warning");
  Add("new");
  const absl::Time begin = steady_;
  Due(*policy);
  steady_ += kSecond;
  EXPECT_THAT(Due(*policy),
              ElementsAre("firing new/warning: new", "acknowledged taken_on/warning: taken_on",
                          "resolved over/warning: over"));
  for (const char* id : {"over", "taken_on", "new"}) {
    EXPECT_EQ(alerts_.at(id).waits_since, begin) << id;
  }
}

TEST_F(PolicyTest, WhatTheLimitHeldBackGoesAsOneMessage) {
  const auto policy = NewsPolicy({.notifier = "n"});
  Add("a", "warning", "exp-1");
  Add("b", "critical", "exp-2");
  Add("c", "warning", "exp-3");
  for (const char* held_back : {"a", "b", "c"}) {
    for (auto& [id, alert] : alerts_) alert.held_back = id == held_back;
    EXPECT_THAT(Due(*policy), ElementsAre("firing b/critical: b a c")) << held_back;
  }
}

TEST_F(PolicyTest, WhatTheLimitHeldBackWaitsForItsGroup) {
  const auto policy = NewsPolicy({.notifier = "n", .group_wait = 10 * kSecond});
  Add("a");
  alerts_.at("a").held_back = true;
  EXPECT_THAT(Due(*policy), IsEmpty());
  EXPECT_EQ(plan_.next, steady_ + 10 * kSecond);
}

TEST_F(PolicyTest, AnAcknowledgementEndsNoMessage) {
  const auto policy = NewsPolicy({.notifier = "n"});
  auto row = Add("a");
  Knows(row.get(), "warning", "a/warning");
  row->mutable_alert()->mutable_acknowledgement()->set_severity("warning");
  ASSERT_THAT(Due(*policy), ElementsAre("acknowledged a/warning: a"));
  Take(*policy, plan_.messages[0]);
  EXPECT_TRUE(DeliveryTo("a").acknowledged());
  EXPECT_FALSE(DeliveryTo("a").told(0).over());
}

TEST_F(PolicyTest, TheEndOfEveryMessageOrOfTheNewestIsTold) {
  for (const bool every : {true, false}) {
    const auto policy = NewsPolicy({.notifier = "n", .end_every_group = every});
    auto row = AddOver("a", "critical");
    Knows(row.get(), "warning", "first");
    Knows(row.get(), "critical", "second");
    if (!every) {
      ASSERT_THAT(Due(*policy), ElementsAre("resolved second: a"));
      Take(*policy, plan_.messages[0]);
      EXPECT_TRUE(DeliveryTo("a").told(0).over());
    } else {
      ASSERT_THAT(Due(*policy), ElementsAre("resolved first: a", "resolved second: a"));
      Take(*policy, plan_.messages[1]);
      EXPECT_FALSE(DeliveryTo("a").told(0).over());
    }
    EXPECT_TRUE(DeliveryTo("a").told(1).over());
    EXPECT_EQ(DeliveryTo("a").resolved(), !every);
  }
}

TEST_F(PolicyTest, TheEndOfAMessageWaitsForAllItsAlerts) {
  const auto policy = NewsPolicy({.notifier = "n"});
  Knows(AddOver("a").get(), "warning", "both");
  Knows(Add("b").get(), "warning", "both");
  EXPECT_THAT(Due(*policy), IsEmpty());
  Knows(AddOver("b").get(), "warning", "both");
  EXPECT_THAT(Due(*policy), ElementsAre("resolved both: a b"));
}

TEST_F(PolicyTest, AMessageOfAnAlertWhoseEndWasToldHasAnotherName) {
  const auto policy = NewsPolicy({.notifier = "n"});
  run_ends_["exp-42"] = {.why = "the run failed", .at = now_, .told_at = now_};
  Knows(Add("a").get(), "warning", "a/warning");
  ASSERT_THAT(Due(*policy), ElementsAre("resolved a/warning: a"));
  Take(*policy, plan_.messages[0]);
  run_ends_.clear();
  EXPECT_THAT(Due(*policy), ElementsAre("firing a/warning/2: a"));
}

// ---- State.

TEST_F(PolicyTest, StateIsShownInMessagesOfAtMost256Alerts) {
  const auto policy = StatePolicy({.notifier = "n"});
  std::vector<std::string> ids;
  for (int i = 0; i < 600; ++i) {
    ids.push_back(absl::StrCat(1000 + i));
    Add(ids.back());
  }
  Due(*policy);
  ASSERT_THAT(plan_.messages, SizeIs(3));
  EXPECT_THAT(plan_.messages[0].alerts, SizeIs(256));
  EXPECT_THAT(plan_.messages[1].alerts, SizeIs(256));
  std::vector<std::string> shown;
  for (const Outgoing& message : plan_.messages) {
    EXPECT_EQ(message.group, absl::StrCat(message.alerts[0]->row->alert().id(), "/warning"));
    for (const TrackedAlert* alert : message.alerts) shown.push_back(alert->row->alert().id());
  }
  EXPECT_EQ(shown, ids);
}

TEST_F(PolicyTest, StateIsShownAgainAndWhatIsNearlyDueComesAlong) {
  const auto policy = StatePolicy({.notifier = "n", .resend = 60 * kSecond});
  for (const char* id : {"half", "less", "old"}) {
    Add(id);
    ASSERT_THAT(Due(*policy), SizeIs(1));
    for (const Outgoing& message : plan_.messages) Take(*policy, message);
  }
  alerts_.at("old").sent_at = steady_;
  alerts_.at("half").sent_at = steady_ + 30 * kSecond;
  alerts_.at("less").sent_at = steady_ + 30 * kSecond + absl::Nanoseconds(1);
  EXPECT_THAT(Due(*policy), IsEmpty());
  EXPECT_EQ(plan_.next, steady_ + 60 * kSecond) << "the earliest of all";
  steady_ += 60 * kSecond;
  EXPECT_THAT(Due(*policy), ElementsAre("firing half/warning: half old"));
  EXPECT_EQ(plan_.next, alerts_.at("half").sent_at + 60 * kSecond);
}

TEST_F(PolicyTest, AChangeOfStateIsShownAtOnceAndSaysSinceWhenItWaits) {
  const auto policy = StatePolicy({.notifier = "n"});
  Add("a");
  const absl::Time begin = steady_;
  EXPECT_THAT(Due(*policy), ElementsAre("firing a/warning: a"));
  steady_ += 5 * kSecond;
  EXPECT_THAT(Due(*policy), ElementsAre("firing a/warning: a"));
  EXPECT_EQ(alerts_.at("a").waits_since, begin);
  Take(*policy, plan_.messages[0]);
  EXPECT_THAT(Due(*policy), IsEmpty());
  EXPECT_EQ(alerts_.at("a").waits_since, absl::InfiniteFuture());
}

TEST_F(PolicyTest, AnEndThatWasShownIsKnownAndRepeated) {
  const auto policy = StatePolicy({.notifier = "n", .resend = 60 * kSecond});
  Knows(AddOver("a").get(), "warning", "a/warning");
  ASSERT_THAT(Due(*policy), ElementsAre("firing a/warning: a"));
  Take(*policy, plan_.messages[0]);
  EXPECT_TRUE(DeliveryTo("a").told(0).over());
  EXPECT_TRUE(DeliveryTo("a").resolved());
  steady_ += 60 * kSecond;
  EXPECT_THAT(Due(*policy), SizeIs(1));
  now_ += kEndRepeated;
  EXPECT_THAT(Due(*policy), IsEmpty());
}

}  // namespace
}  // namespace foreshock::notify
