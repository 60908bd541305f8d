#include "daemon/pipeline/inbox.h"

#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InboxTest : public ::testing::Test {
 protected:
  CallWork Note(const std::string& name) {
    return {[this, name] {
              done_.push_back(name);
              return absl::OkStatus();
            },
            nullptr};
  }
  void Put(const std::string& lane, const std::string& name) {
    ASSERT_OK(inbox_.Put(lane, Note(name)));
  }
  // Does `count` pieces of work, each of which takes so long.
  void DoWork(int count, absl::Duration each = absl::Milliseconds(1)) {
    for (int i = 0; i < count; ++i) {
      std::optional<Work> work = inbox_.Take(absl::ZeroDuration());
      ASSERT_TRUE(work.has_value());
      if (const auto* call = std::get_if<CallWork>(&*work)) {
        ASSERT_OK(call->call());
      }
      inbox_.Done(each);
    }
  }
  absl::Status Report(const std::string& run, size_t bytes) {
    FORESHOCK_RETURN_IF_ERROR(inbox_.Reserve(run, bytes));
    return inbox_.Put(run, ReportWork{.stream = nullptr, .bytes = bytes});
  }

  PipelineStats stats_;
  Inbox inbox_{{.items_max = 8, .bytes_max = 1000}, &stats_};
  std::vector<std::string> done_;
};

TEST_F(InboxTest, KeepsTheOrderOfALane) {
  for (const char* name : {"1", "2", "3"}) Put("a", name);
  DoWork(3);
  EXPECT_THAT(done_, ElementsAre("1", "2", "3"));
  EXPECT_EQ(inbox_.size(), 0u);
  EXPECT_FALSE(inbox_.Take(absl::ZeroDuration()).has_value());
}

TEST_F(InboxTest, ALaneThatComesLaterIsNotBehindABacklog) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) Put("a", name);
  DoWork(2);
  Put("b", "b1");
  Put("b", "b2");
  DoWork(4);
  EXPECT_THAT(done_, ElementsAre("a1", "a2", "b1", "a3", "b2", "a4"));
}

TEST_F(InboxTest, WhatCostsMuchTakesTurnsWithWhatCostsLittle) {
  Put("dear", "D1");
  Put("dear", "D2");
  Put("dear", "D3");
  DoWork(1, absl::Milliseconds(30));
  for (const char* name : {"1", "2", "3", "4"}) Put("cheap", name);
  DoWork(4, absl::Milliseconds(1));
  EXPECT_THAT(done_, ElementsAre("D1", "1", "2", "3", "4"));
}

TEST_F(InboxTest, IdleTimeIsNoCredit) {
  Put("a", "a1");
  Put("b", "b1");
  DoWork(2);
  for (int round = 0; round < 4; ++round) {
    Put("a", "a");
    DoWork(1, absl::Seconds(1));
  }
  // b waited for nothing meanwhile; it takes turns now, and does not take all.
  for (const char* name : {"b", "b"}) Put("b", name);
  for (const char* name : {"a", "a"}) Put("a", name);
  done_.clear();
  DoWork(4, absl::Seconds(1));
  EXPECT_THAT(done_, ElementsAre("b", "a", "b", "a"));
}

TEST_F(InboxTest, ACallBehindAllWaitsForWhatWasPutInBeforeAndForNothingElse) {
  Put("a", "a1");
  Put("b", "b1");
  ASSERT_OK(inbox_.PutBehindAll(Note("call")));
  Put("a", "a2");
  Put("c", "c1");
  DoWork(5);
  ASSERT_EQ(done_.size(), 5u);
  EXPECT_EQ(done_[2], "call");
}

TEST_F(InboxTest, IsBoundedInItemsExceptForEnds) {
  for (int i = 0; i < 8; ++i) Put("a", "x");
  EXPECT_THAT(inbox_.Put("b", Note("y")),
              support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("holds 8 items")));
  inbox_.PutAlways("b", EndWork{nullptr});
  EXPECT_EQ(inbox_.size(), 9u);
  EXPECT_EQ(stats_.queue_refusals, 1u);
}

TEST_F(InboxTest, ARunLeavesRoomForTheOthers) {
  EXPECT_OK(Report("a", 400));
  EXPECT_OK(Report("a", 400));
  EXPECT_THAT(Report("a", 100),
              support::StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("holds 800 of 1000 bytes, 800 of them of this run")));
  EXPECT_OK(Report("b", 100));
  EXPECT_FALSE(Report("b", 100).ok()) << "100 is not four times nothing";
  EXPECT_OK(Report("c", 100)) << "one report of a run finds room while there is any";
  EXPECT_FALSE(Report("d", 1).ok());
  EXPECT_EQ(stats_.queue_bytes, 1000u);
  DoWork(4);
  EXPECT_EQ(stats_.queue_bytes, 0u);
}

TEST_F(InboxTest, OneReportThatIsLargerThanTheQueueFindsRoomAlone) {
  EXPECT_OK(Report("a", 5000));
  EXPECT_FALSE(Report("b", 1).ok());
  DoWork(1);
  EXPECT_OK(Report("b", 1));
}

TEST_F(InboxTest, GivesBackWhatAReportReservedThatDoesNotComeIn) {
  inbox_.Close();
  EXPECT_THAT(Report("a", 400),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting")));
  EXPECT_EQ(stats_.queue_bytes, 0u);
}

TEST_F(InboxTest, WhatIsInsideWhenItClosesCanBeTakenOut) {
  Put("a", "a1");
  inbox_.Close();
  EXPECT_THAT(inbox_.Put("a", Note("a2")),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("")));
  EXPECT_FALSE(inbox_.PutBehindAll(Note("call")).ok());
  DoWork(1);
  EXPECT_THAT(done_, ElementsAre("a1"));
  EXPECT_FALSE(inbox_.Take(absl::InfiniteDuration()).has_value());
}

TEST_F(InboxTest, RefusesReportsWhileTheStoreCannotBeWrittenAndOnceItDrains) {
  stats_.store_writable = false;
  EXPECT_THAT(Report("a", 1), support::StatusIs(absl::StatusCode::kResourceExhausted,
                                                HasSubstr("cannot be written")));
  stats_.store_writable = true;
  EXPECT_OK(Report("a", 1));
  EXPECT_TRUE(inbox_.Drain());
  EXPECT_FALSE(inbox_.Drain());
  EXPECT_THAT(Report("a", 1),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting")));
}

}  // namespace
}  // namespace foreshock::pipeline
