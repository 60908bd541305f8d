#include "daemon/notify/channel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/notify/delivery.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Outcome = SendResult::Outcome;
using Row = std::shared_ptr<model::AlertRow>;

// What a receiver got, and what it answers.
struct Receiver {
  std::vector<std::string> got;  // "firing a b", "resolved a"
  std::vector<std::string> groups;
  std::string reason;  // of the newest message
  std::map<std::string, v1::Silence> silences;
  SendResult answer;
  int asked = 0;
};

class FakeNotifier final : public Notifier {
 public:
  explicit FakeNotifier(Receiver* receiver) : receiver_(receiver) {}
  SendResult Send(const Message& message) override {
    ++receiver_->asked;
    if (receiver_->answer.outcome != Outcome::kTaken) return receiver_->answer;
    std::string text = message.kind == MessageKind::kFiring     ? "firing"
                       : message.kind == MessageKind::kResolved ? "resolved"
                                                                : "acknowledged";
    for (const auto& row : message.alerts) {
      const bool over = OverSince(message, *row).has_value();
      absl::StrAppend(&text, " ", row->alert().id(),
                      over && message.kind == MessageKind::kFiring ? "(over)" : "");
    }
    receiver_->got.push_back(text);
    receiver_->groups.push_back(message.group);
    receiver_->reason = EndReason(message, *message.alerts.front());
    receiver_->silences = message.silences;
    return {};
  }
  SendResult SendChange(const RunChange& change) override {
    ++receiver_->asked;
    if (receiver_->answer.outcome != Outcome::kTaken) return receiver_->answer;
    receiver_->got.push_back(absl::StrCat("attempt ", change.attempt, " of ", change.run));
    return {};
  }

 private:
  Receiver* const receiver_;
};

// A channel, the store that keeps what it recorded, and the outbox's side of the bargain.
class ChannelTest : public ::testing::Test {
 protected:
  void Make(Channel::Options options) {
    options.notifier = "n";
    options_ = options;
    channel_ = std::make_unique<Channel>(
        options, std::make_unique<FakeNotifier>(&receiver_),
        Channel::Deps{.clock = &clock_,
                      .random = [] { return 1.0; },
                      .silenced =
                          [this](const v1::Alert&) {
                            return silenced_ ? std::optional(v1::Silence()) : std::nullopt;
                          },
                      .record =
                          [this](const model::AlertRow& row, const model::Delivery& delivery) {
                            if (!store_answer_.ok()) return store_answer_;
                            MergeDelivery(delivery, stored_.at(row.alert().id()).get());
                            return absl::OkStatus();
                          },
                      .done =
                          [this](const model::AlertRow& row, uint64_t version) {
                            done_.push_back(absl::StrCat(row.alert().id(), " ", version));
                          }});
  }
  // A restart: what is in memory is gone, what is stored is offered again.
  void Restart() {
    Make(options_);
    for (const auto& [id, row] : stored_) channel_->Offer(row, ++version_);
  }
  // As the pipeline does: what is stored of the deliveries goes on.
  void Offer(const Row& row) {
    auto& stored = stored_[row->alert().id()];
    auto fresh = std::make_shared<model::AlertRow>(*row);
    if (stored != nullptr) *fresh->mutable_deliveries() = stored->deliveries();
    stored = fresh;
    channel_->Offer(std::make_shared<model::AlertRow>(*fresh), ++version_);
  }
  Row Over(const std::string& id, const std::string& severity = "warning") {
    Row row = Firing(id, severity);
    row->mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
    row->set_ended_unix_ns(absl::ToUnixNanos(clock_.Now()));
    return row;
  }
  // Its alerts are told as over in 15 minutes.
  void EndRun() {
    const absl::Time now = clock_.Now();
    channel_->SetRunEnd("exp-42", RunEnd{"the run failed", now, now + absl::Minutes(15)});
  }
  absl::Duration Turn(bool last = false) { return channel_->Turn(last) - clock_.Steady(); }
  absl::Duration After(absl::Duration time) {
    clock_.Advance(time);
    return Turn();
  }
  uint64_t Count(const std::string& result) { return channel_->stats().results[result]; }

  support::FakeClock clock_;
  Receiver receiver_;
  Channel::Options options_;
  std::unique_ptr<Channel> channel_;
  std::map<std::string, Row> stored_;
  uint64_t version_ = 0;
  bool silenced_ = false;
  absl::Status store_answer_;
  std::vector<std::string> done_;
};

SendResult Failing(absl::Duration retry_after = {}) {
  return {.outcome = Outcome::kRetry,
          .status = absl::UnavailableError("down"),
          .retry_after = retry_after};
}

TEST_F(ChannelTest, TellsTheBeginningAndTheEndOnceEachAlsoOverRestarts) {
  Make({});
  Offer(Firing("a"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  Offer(Firing("a"));  // its evidence has changed
  Turn();
  Restart();
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  Offer(Over("a"));
  Turn();
  Restart();
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "resolved a"));
  EXPECT_THAT(receiver_.groups, ElementsAre("a/warning", "a/warning"));
}

TEST_F(ChannelTest, SaysWhenNothingIsLeftToTell) {
  Make({});
  Offer(Firing("a"));
  Turn();
  EXPECT_THAT(done_, IsEmpty());
  Offer(Over("a"));
  Turn();
  EXPECT_THAT(done_, ElementsAre("a 2"));
}

TEST_F(ChannelTest, WhatWasOverBeforeItCouldBeToldIsToldAllTheSame) {
  Make({});
  Offer(Over("a"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a(over)", "resolved a"));
}

TEST_F(ChannelTest, ARisenSeverityIsToldOnceMore) {
  Make({});
  Offer(Firing("a", "warning"));
  Turn();
  Offer(Firing("a", "critical"));
  Turn();
  Restart();
  Turn();
  Offer(Firing("a", "warning"));  // and what falls again is no news
  Turn();
  EXPECT_THAT(receiver_.groups, ElementsAre("a/warning", "a/critical"));
  Offer(Over("a", "warning"));
  Turn();
  EXPECT_THAT(receiver_.groups, ElementsAre("a/warning", "a/critical", "a/critical"));
}

TEST_F(ChannelTest, WhereEachMessageIsAnIncidentEveryOneEnds) {
  Make({.end_every_group = true});
  Offer(Firing("a", "warning"));
  Turn();
  Offer(Firing("a", "critical"));
  Turn();
  Offer(Over("a", "critical"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "firing a", "resolved a", "resolved a"));
  EXPECT_THAT(receiver_.groups, ElementsAre("a/warning", "a/critical", "a/critical", "a/warning"));
  Restart();
  Turn();
  EXPECT_EQ(receiver_.got.size(), 4u);
}

TEST_F(ChannelTest, RoutesBySeverityAndLabels) {
  Make({.severity_min = Severity::kWarning, .match = {*base::LabelMatcher::Parse("run=~exp-.*")}});
  Offer(Firing("info", "info"));
  Offer(Firing("other", "critical", "test-1"));
  Offer(Firing("odd", "urgent"));  // nobody's fault: better told than lost
  Offer(Firing("w", "warning"));
  Turn();
  EXPECT_THAT(receiver_.got, UnorderedElementsAre("firing odd", "firing w"));
  EXPECT_EQ(Count("filtered"), 2u);
  Offer(Firing("info", "critical"));  // it has become grave enough
  Turn();
  EXPECT_THAT(receiver_.got, UnorderedElementsAre("firing odd", "firing w", "firing info"));
}

TEST_F(ChannelTest, AlertsOfARunThatFireTogetherAreOneMessage) {
  Make({.group_wait = absl::Seconds(5)});
  Offer(Firing("a"));
  EXPECT_EQ(Turn(), absl::Seconds(5));
  Offer(Firing("b", "critical"));
  Offer(Firing("z", "warning", "other-run"));
  EXPECT_EQ(After(absl::Seconds(4)), absl::Seconds(1));
  EXPECT_EQ(channel_->stats().pending, 3u);
  After(absl::Seconds(1));
  EXPECT_THAT(receiver_.got, ElementsAre("firing b a"));  // the gravest first
  After(absl::Seconds(4));
  EXPECT_THAT(receiver_.got, ElementsAre("firing b a", "firing z"));
  EXPECT_EQ(receiver_.groups[0], "b/critical");
  // The message is over when all of it is, also after a restart.
  Offer(Over("b", "critical"));
  Turn();
  Restart();
  Turn();
  EXPECT_EQ(receiver_.got.size(), 2u);
  Offer(Over("a"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing b a", "firing z", "resolved a b"));
  EXPECT_EQ(receiver_.groups[2], "b/critical");
}

TEST_F(ChannelTest, WhoStopsDoesNotWaitForCompany) {
  Make({.group_wait = absl::Minutes(5)});
  Offer(Firing("a"));
  Turn();
  EXPECT_THAT(receiver_.got, IsEmpty());
  Turn(/*last=*/true);
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
}

TEST_F(ChannelTest, AFailureIsTriedAgainAfterAWaitThatGrows) {
  Make({});
  receiver_.answer = Failing();
  Offer(Firing("a"));
  EXPECT_EQ(Turn(), absl::Seconds(1));
  EXPECT_EQ(After(absl::Milliseconds(500)), absl::Milliseconds(500));  // too early: not asked
  EXPECT_EQ(receiver_.asked, 1);
  EXPECT_EQ(After(absl::Milliseconds(500)), absl::Seconds(2));
  EXPECT_EQ(After(absl::Seconds(2)), absl::Seconds(4));
  EXPECT_EQ(channel_->stats().pending, 1u);
  EXPECT_EQ(clock_.Now() - channel_->stats().oldest_pending, absl::Seconds(3));
  const absl::Time failed = clock_.Now();
  receiver_.answer = {};
  After(absl::Seconds(4));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  EXPECT_EQ(Count("failed"), 3u);
  EXPECT_EQ(Count("sent"), 1u);
  EXPECT_EQ(channel_->stats().last_failure, failed);
  EXPECT_EQ(channel_->stats().last_success, clock_.Now());
  EXPECT_EQ(channel_->stats().pending, 0u);
}

TEST_F(ChannelTest, ARetryAfterIsHonoured) {
  Make({});
  receiver_.answer = Failing(absl::Seconds(90));
  Offer(Firing("a"));
  Turn();
  After(absl::Seconds(89));
  EXPECT_EQ(receiver_.asked, 1);
  After(absl::Seconds(1));
  EXPECT_EQ(receiver_.asked, 2);
}

TEST_F(ChannelTest, WaitsAreNotChangedByWhoSetsTheClock) {
  Make({.resend = absl::Minutes(1)});
  Offer(Firing("a"));
  Turn();
  clock_.Jump(-absl::Hours(24));
  clock_.Advance(absl::Minutes(1));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "firing a"));
  receiver_.answer = Failing();
  clock_.Jump(absl::Hours(48));
  clock_.Advance(absl::Minutes(1));
  Turn();
  EXPECT_EQ(receiver_.asked, 3);
  clock_.Jump(-absl::Hours(48));
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_EQ(receiver_.asked, 4);
}

TEST_F(ChannelTest, WhatIsRefusedIsGivenUpUntilTheNextStart) {
  Make({});
  receiver_.answer = {.outcome = Outcome::kRefused, .status = absl::FailedPreconditionError("400")};
  Offer(Firing("a"));
  Turn();
  After(absl::Hours(1));
  EXPECT_EQ(receiver_.asked, 1);
  EXPECT_EQ(Count("refused"), 1u);
  Offer(Firing("b"));  // another message may be good
  receiver_.answer = {};
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing b"));
  Restart();  // with the key set right, perhaps
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing b", "firing a"));
}

TEST_F(ChannelTest, TheEndOfWhatWasGivenUpIsNotTold) {
  Make({});
  receiver_.answer = {.outcome = Outcome::kRefused, .status = absl::FailedPreconditionError("400")};
  Offer(Firing("a"));
  Turn();
  receiver_.answer = {};
  Offer(Over("a"));
  Turn();
  EXPECT_THAT(receiver_.got, IsEmpty());
  EXPECT_THAT(done_, ElementsAre("a 2"));
}

TEST_F(ChannelTest, MoreThanTheLimitIsFoldedIntoOneMessageAndTheEndsAreNotHeldBack) {
  Make({.messages_per_hour_max = 2});
  for (const char* id : {"a", "b", "c"}) Offer(Firing(id));
  Offer(Firing("d", "critical", "other-run"));
  const absl::Duration wait = Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "firing b"));
  EXPECT_EQ(Count("rate_limited"), 2u);
  EXPECT_LE(wait, absl::Seconds(5));
  Offer(Over("a"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "firing b", "resolved a"));
  After(absl::Minutes(29));
  EXPECT_EQ(receiver_.got.size(), 3u);
  After(absl::Minutes(2));
  ASSERT_EQ(receiver_.got.size(), 4u);
  EXPECT_EQ(receiver_.got[3], "firing d c");
}

TEST_F(ChannelTest, ASilencedAlertIsToldWhenTheSilenceEnds) {
  Make({});
  silenced_ = true;
  Offer(Firing("a"));
  EXPECT_LE(Turn(), absl::Seconds(5));  // looks again by itself
  EXPECT_THAT(receiver_.got, IsEmpty());
  EXPECT_EQ(Count("silenced"), 1u);
  silenced_ = false;
  After(absl::Seconds(5));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  silenced_ = true;  // the end of what was told is told
  Offer(Over("a"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "resolved a"));
}

TEST_F(ChannelTest, AnAcknowledgedAlertIsToldOnlyWhenItIsGraverOrOver) {
  Make({});
  const auto acknowledged = [](Row row, const std::string& severity) {
    row->mutable_alert()->mutable_acknowledgement()->set_severity(severity);
    return row;
  };
  Offer(Firing("a"));
  Turn();
  Offer(acknowledged(Firing("a"), "warning"));
  Turn();
  Restart();
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "acknowledged a"));
  Offer(acknowledged(Firing("a", "critical"), "warning"));
  Turn();
  EXPECT_EQ(receiver_.got.back(), "firing a");
  Offer(acknowledged(Over("a", "critical"), "warning"));
  Turn();
  EXPECT_EQ(receiver_.got.back(), "resolved a");
  EXPECT_EQ(receiver_.got.size(), 4u);
  // One that was taken on before anybody was told is nobody's news.
  Offer(acknowledged(Firing("b"), "warning"));
  Turn();
  Offer(acknowledged(Over("b"), "warning"));
  Turn();
  EXPECT_EQ(receiver_.got.size(), 4u);
}

TEST_F(ChannelTest, WhatCouldNotBeWrittenDownIsNotSentAgainAndWrittenLater) {
  Make({});
  store_answer_ = absl::ResourceExhaustedError("disk full");
  Offer(Firing("a"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  EXPECT_TRUE(stored_.at("a")->deliveries().empty());
  Offer(Over("a"));  // offered as the store knows it
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "resolved a"));
  EXPECT_THAT(done_, IsEmpty());
  store_answer_ = absl::OkStatus();
  After(absl::Seconds(1));
  EXPECT_EQ(stored_.at("a")->deliveries(0).told_size(), 1);
  EXPECT_TRUE(stored_.at("a")->deliveries(0).resolved());
  EXPECT_EQ(done_.size(), 1u);
}

TEST_F(ChannelTest, WhatIsRecordedFirstIsNotToldBefore) {
  Make({.recorded_first = true});
  store_answer_ = absl::ResourceExhaustedError("disk full");
  Offer(Firing("a"));
  EXPECT_LE(Turn(), absl::Seconds(1));
  EXPECT_EQ(receiver_.asked, 0);
  store_answer_ = absl::OkStatus();
  After(absl::Seconds(1));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  Offer(Over("a"));
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "resolved a"));
}

TEST_F(ChannelTest, ADeletedRunIsOverForThoseWhoWereToldAndNoNewsForOthers) {
  for (const bool recorded_first : {false, true}) {
    receiver_.got.clear();
    stored_.clear();
    store_answer_ = absl::OkStatus();
    Make({.group_wait = absl::Seconds(5), .recorded_first = recorded_first});
    Offer(Firing("told"));
    Turn();
    After(absl::Seconds(5));
    Offer(Firing("waits"));
    Offer(Firing("b", "warning", "other"));
    Turn();
    store_answer_ = absl::NotFoundError("no such run");  // its rows are gone
    const absl::Time now = clock_.Now();
    channel_->SetRunEnd(
        "exp-42", RunEnd{.why = "the run was deleted", .at = now, .told_at = now, .deleted = true});
    After(absl::Seconds(5));
    After(absl::Seconds(5));
    EXPECT_THAT(receiver_.got, ElementsAre("firing told", "firing b", "resolved told"));
    EXPECT_EQ(channel_->stats().pending, 0u);
  }
}

TEST_F(ChannelTest, TheStateIsToldAgainAndAgainAndItsEndForAWhile) {
  Make({.resend = absl::Minutes(1)});
  Offer(Firing("a"));
  Turn();
  After(absl::Seconds(50));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  After(absl::Seconds(10));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "firing a"));
  After(absl::Seconds(45));
  Offer(Firing("b"));  // news goes at once, and takes along what is nearly due
  Turn();
  EXPECT_EQ(receiver_.got.back(), "firing a b");
  Offer(Over("a"));
  Turn();
  EXPECT_EQ(receiver_.got.back(), "firing a(over)");
  size_t told = receiver_.got.size();
  for (int i = 0; i < 14; ++i) {
    After(absl::Minutes(1));
    EXPECT_EQ(receiver_.got.size(), ++told);
    EXPECT_EQ(receiver_.got.back(), "firing a(over) b");
  }
  After(absl::Minutes(1));
  EXPECT_EQ(receiver_.got.back(), "firing b");
  EXPECT_THAT(done_, ElementsAre("a 3"));
  EXPECT_EQ(Count("sent"), 3u);
  EXPECT_GT(Count("repeated"), 14u);
}

TEST_F(ChannelTest, ASilenceDoesNotEndTheStateAndIsShownWithIt) {
  Make({.resend = absl::Minutes(1)});
  Offer(Firing("a"));
  Turn();
  EXPECT_THAT(receiver_.silences, IsEmpty());
  silenced_ = true;
  Offer(Firing("b"));  // the receiver does not know it, and need not
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "firing a"));
  EXPECT_THAT(receiver_.silences, UnorderedElementsAre(Pair("a", _)));
  EXPECT_EQ(Count("silenced"), 2u);
  for (int minute = 0; minute < 30; ++minute) {
    After(absl::Minutes(1));
    EXPECT_EQ(receiver_.got.size(), 3u + static_cast<size_t>(minute));
    EXPECT_EQ(receiver_.got.back(), "firing a");
  }
  Restart();
  Turn();
  EXPECT_EQ(receiver_.got.back(), "firing a");
  EXPECT_THAT(receiver_.silences, UnorderedElementsAre(Pair("a", _)));
  silenced_ = false;
  Turn();  // at once
  EXPECT_EQ(receiver_.got.back(), "firing a b");
  EXPECT_THAT(receiver_.silences, IsEmpty());
  silenced_ = true;
  Turn();
  Offer(Over("a"));
  Turn();
  EXPECT_EQ(receiver_.got.back(), "firing a(over)");
  EXPECT_THAT(receiver_.silences, IsEmpty());  // the end of what was told is told
}

TEST_F(ChannelTest, TheStateIsToldAtOnceAfterARestart) {
  Make({.resend = absl::Minutes(1)});
  Offer(Firing("a"));
  Turn();
  Offer(Over("a"));
  Turn();
  Restart();
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "firing a(over)", "firing a(over)"));
  Offer(Firing("b"));
  Turn();
  Restart();
  Turn();
  EXPECT_EQ(receiver_.got.back(), "firing a(over) b");
}

TEST_F(ChannelTest, WhatFiresInARunThatHasEndedIsToldAsOverAfterAWhileAndAnewWhenTheRunGoesOn) {
  Make({});
  Offer(Firing("a"));
  Turn();
  EndRun();
  EXPECT_LE(Turn(), absl::Seconds(5));
  After(absl::Minutes(14));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
  EXPECT_THAT(done_, IsEmpty());
  After(absl::Minutes(1));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "resolved a"));
  EXPECT_EQ(receiver_.reason, "the run failed, it fired until then");
  EXPECT_THAT(done_, ElementsAre("a 1"));
  EXPECT_FALSE(stored_.at("a")->deliveries(0).resolved());  // it fires as far as anybody knows
  for (int restart = 0; restart < 2; ++restart) {           // also when the end is found anew
    Restart();
    EndRun();
    Turn();
    After(absl::Hours(1));
  }
  EXPECT_EQ(receiver_.got.size(), 2u);
  // It goes on, and the alert fires on: a page of its own, once.
  channel_->SetRunEnd("exp-42", std::nullopt);
  Offer(Firing("a"));
  Turn();
  Restart();
  Turn();
  Offer(Over("a"));
  Turn();
  Restart();
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "resolved a", "firing a", "resolved a"));
  EXPECT_THAT(receiver_.groups,
              ElementsAre("a/warning", "a/warning", "a/warning/2", "a/warning/2"));
  EXPECT_EQ(receiver_.reason, "");
}

TEST_F(ChannelTest, ARunThatGoesOnSoonIsNoNews) {
  Make({});
  Offer(Firing("a"));
  Turn();
  EndRun();
  After(absl::Minutes(10));
  channel_->SetRunEnd("exp-42", std::nullopt);
  Offer(Firing("a"));
  After(absl::Hours(1));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a"));
}

TEST_F(ChannelTest, WhatRecoversAfterItWasToldAsOverWithItsRunIsNoNews) {
  Make({});
  Offer(Firing("a"));
  Turn();
  EndRun();
  After(absl::Minutes(16));
  Offer(Over("a"));
  Turn();
  Restart();
  Turn();
  EXPECT_THAT(receiver_.got, ElementsAre("firing a", "resolved a"));
}

TEST_F(ChannelTest, WhatEndsWithItsRunBeforeItCouldBeToldIsToldAllTheSame) {
  Make({});
  receiver_.answer = Failing();
  Offer(Firing("a"));
  Turn();
  EndRun();
  receiver_.answer = {};
  After(absl::Hours(1));
  EXPECT_THAT(receiver_.got, ElementsAre("firing a(over)", "resolved a"));
}

TEST_F(ChannelTest, EveryIncidentEndsWithTheRun) {
  Make({.end_every_group = true});
  Offer(Firing("a", "warning"));
  Turn();
  Offer(Firing("a", "critical"));
  Turn();
  EndRun();
  After(absl::Minutes(16));
  Restart();
  EndRun();
  After(absl::Hours(1));
  EXPECT_THAT(receiver_.groups, ElementsAre("a/warning", "a/critical", "a/critical", "a/warning"));
  channel_->SetRunEnd("exp-42", std::nullopt);
  Offer(Firing("a", "critical"));
  Turn();
  Offer(Over("a", "critical"));
  Turn();
  EXPECT_EQ(receiver_.groups.size(), 6u);
  EXPECT_EQ(receiver_.groups.back(), "a/critical/3");
  EXPECT_EQ(receiver_.got.back(), "resolved a");
}

TEST_F(ChannelTest, TheStateOfARunThatHasEndedIsFiringForAWhileThenOver) {
  Make({.resend = absl::Minutes(1)});
  Offer(Firing("a"));
  Turn();
  EndRun();
  After(absl::Minutes(14));
  EXPECT_EQ(receiver_.got.back(), "firing a");
  for (int minute = 0; minute < 15; ++minute) {
    After(absl::Minutes(1));
    EXPECT_EQ(receiver_.got.back(), "firing a(over)");
    EXPECT_EQ(receiver_.reason, "the run failed, it fired until then");
  }
  const size_t told = receiver_.got.size();
  After(absl::Minutes(1));
  EXPECT_EQ(receiver_.got.size(), told);
  EXPECT_THAT(done_, ElementsAre("a 1"));
  channel_->SetRunEnd("exp-42", std::nullopt);
  Offer(Firing("a"));
  Turn();
  EXPECT_EQ(receiver_.got.back(), "firing a");
  EXPECT_EQ(receiver_.got.size(), told + 1);
}

TEST_F(ChannelTest, NewAttemptsAreToldInOrderAndAgainWhenTheyWereNotTaken) {
  Make({.changes = true});
  receiver_.answer = Failing();
  channel_->OfferChange({.run = "a", .attempt = 2});
  channel_->OfferChange({.run = "b", .attempt = 5});
  Turn();
  EXPECT_EQ(receiver_.asked, 1);
  EXPECT_THAT(receiver_.got, IsEmpty());
  receiver_.answer = {};
  Turn();
  EXPECT_EQ(receiver_.asked, 1);  // not before its time
  After(absl::Minutes(1));
  EXPECT_THAT(receiver_.got, ElementsAre("attempt 2 of a", "attempt 5 of b"));
  EXPECT_EQ(Count("changes"), 2u);
  receiver_.answer = {.outcome = Outcome::kRefused, .status = absl::FailedPreconditionError("no")};
  channel_->OfferChange({.run = "a", .attempt = 3});
  Turn();
  receiver_.answer = {};
  After(absl::Hours(1));
  EXPECT_EQ(receiver_.asked, 4);
  EXPECT_EQ(receiver_.got.size(), 2u);
}

TEST_F(ChannelTest, NewAttemptsGoToWhoWantsThemAndAreBounded) {
  Make({});
  channel_->OfferChange({.run = "a", .attempt = 2});
  Turn();
  EXPECT_EQ(receiver_.asked, 0);
  ASSERT_OK_AND_ASSIGN(const base::LabelMatcher run, base::LabelMatcher::Parse("run=~exp-.*"));
  ASSERT_OK_AND_ASSIGN(const base::LabelMatcher severity,
                       base::LabelMatcher::Parse("severity=critical"));
  Make({.match = {run, severity}, .changes = true});
  channel_->OfferChange({.run = "a", .attempt = 2});
  for (uint32_t attempt = 2; attempt < Channel::kChangesMax + 12; ++attempt) {
    channel_->OfferChange({.run = "exp-1", .attempt = attempt});
  }
  Turn();
  ASSERT_EQ(receiver_.got.size(), Channel::kChangesMax);
  EXPECT_EQ(receiver_.got.front(), "attempt 12 of exp-1");
}

}  // namespace
}  // namespace foreshock::notify
