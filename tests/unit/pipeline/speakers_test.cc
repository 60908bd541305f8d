#include "daemon/pipeline/speakers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::pipeline {
namespace {

using ::testing::HasSubstr;

v1::Hello RankHello(uint32_t rank, const std::string& process) {
  v1::Hello hello;
  hello.set_rank(rank);
  hello.set_client_instance(process);
  hello.mutable_coordinates()->set_data(rank);
  return hello;
}

class SpeakersTest : public ::testing::Test {
 protected:
  absl::StatusOr<Admitted> Greet(uint32_t rank, const std::string& process, StreamId stream) {
    return speakers_.Greet(RankHello(rank, process), stream, &batch_);
  }
  bool Mark(uint32_t rank, const std::string& process, uint64_t seq) {
    model::ShardReport report;
    report.set_rank(rank);
    report.set_client_instance(process);
    report.set_seq(seq);
    if (speakers_.Knows(report)) return false;
    speakers_.Mark(report, /*step_holds=*/true, &batch_);
    return true;
  }

  PipelineStats stats_;
  store::StoreBatch batch_;
  Speakers speakers_{"exp-42", 3, {}, &stats_};
};

TEST_F(SpeakersTest, AMarkOnlyRises) {
  ASSERT_OK(Greet(0, "a", 1));
  EXPECT_TRUE(Mark(0, "a", 7));
  EXPECT_FALSE(Mark(0, "a", 7));
  EXPECT_FALSE(Mark(0, "a", 6));
  EXPECT_TRUE(Mark(0, "a", 8));
  ASSERT_OK_AND_ASSIGN(const Admitted again, Greet(0, "a", 2));
  EXPECT_EQ(again.last_committed_seq, 8u);
  EXPECT_EQ(again.replaced, 1u);
  EXPECT_EQ(again.attempt, 3u);
}

TEST_F(SpeakersTest, OneProcessSpeaksForARankAndTheNextBeginsItsOwnCount) {
  ASSERT_OK(Greet(0, "a", 1));
  ASSERT_TRUE(Mark(0, "a", 9));
  EXPECT_THAT(Greet(0, "b", 2),
              support::StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'a'")));
  speakers_.StreamEnded(0, 1);
  EXPECT_EQ(speakers_.connected(), 0u);
  ASSERT_OK_AND_ASSIGN(const Admitted next, Greet(0, "b", 2));
  EXPECT_EQ(next.last_committed_seq, 0u);
  EXPECT_EQ(next.replaced, 0u);
  speakers_.StreamEnded(0, 1);  // the older stream's end, once more
  EXPECT_EQ(speakers_.connected(), 1u);
}

TEST_F(SpeakersTest, CoordinatesAreFixed) {
  ASSERT_OK(Greet(0, "a", 1));
  v1::Hello moved = RankHello(0, "a");
  moved.mutable_coordinates()->set_tensor(1);
  EXPECT_THAT(
      speakers_.Greet(moved, 2, &batch_),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("changed its coordinates")));
  EXPECT_EQ(speakers_.connected(), 1u);
}

TEST_F(SpeakersTest, AnAttemptEndsWithTheGravestOutcomeOnceEveryRankHasSaidOne) {
  ASSERT_OK(Greet(0, "a", 1));
  ASSERT_OK(Greet(1, "b", 2));
  ASSERT_OK(Greet(2, "c", 3));
  speakers_.Goodbye(0, "a", v1::OUTCOME_FINISHED, &batch_);
  speakers_.Goodbye(1, "b", v1::OUTCOME_PREEMPTED, &batch_);
  EXPECT_EQ(speakers_.outcome(), std::nullopt);
  speakers_.Goodbye(2, "c", v1::OUTCOME_FINISHED, &batch_);
  EXPECT_EQ(speakers_.outcome(), v1::RUN_STATE_PREEMPTED);
  EXPECT_EQ(speakers_.connected(), 0u);
  ASSERT_OK(Greet(2, "c", 4));
  EXPECT_EQ(speakers_.outcome(), std::nullopt);
  speakers_.Goodbye(2, "c", v1::OUTCOME_FAILED, &batch_);
  EXPECT_EQ(speakers_.outcome(), v1::RUN_STATE_FAILED);
}

TEST_F(SpeakersTest, AProcessThatTakesARankOverSpeaksForIt) {
  ASSERT_OK(Greet(0, "a", 1));
  ASSERT_OK(Greet(1, "b", 2));
  speakers_.Goodbye(0, "a", v1::OUTCOME_FAILED, &batch_);
  ASSERT_OK(Greet(0, "a2", 3));
  speakers_.Goodbye(1, "b", v1::OUTCOME_FINISHED, &batch_);
  EXPECT_EQ(speakers_.outcome(), std::nullopt) << "rank 0 goes on";
  speakers_.Goodbye(0, "a2", v1::OUTCOME_FINISHED, &batch_);
  EXPECT_EQ(speakers_.outcome(), v1::RUN_STATE_FINISHED);
}

TEST_F(SpeakersTest, ARestartKnowsMarksAndOutcomes) {
  ASSERT_OK(Greet(0, "a", 1));
  ASSERT_TRUE(Mark(0, "a", 5));
  ASSERT_OK(Greet(1, "b", 2));
  speakers_.Goodbye(1, "b", v1::OUTCOME_FINISHED, &batch_);

  Speakers restarted("exp-42", 3, {}, &stats_);
  for (const auto& row : batch_.ranks) restarted.Restore(row.row);
  EXPECT_EQ(restarted.connected(), 0u);
  EXPECT_EQ(restarted.outcome(), std::nullopt);
  ASSERT_OK_AND_ASSIGN(const Admitted admitted, restarted.Greet(RankHello(0, "a"), 1, &batch_));
  EXPECT_EQ(admitted.last_committed_seq, 5u);
  restarted.Goodbye(0, "a", v1::OUTCOME_FINISHED, &batch_);
  EXPECT_EQ(restarted.outcome(), v1::RUN_STATE_FINISHED);
}

}  // namespace
}  // namespace foreshock::pipeline
