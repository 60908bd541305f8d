#include "daemon/ingest/stream.h"

#include <utility>

#include "daemon/ingest/ack_queue.h"
#include "daemon/ingest/admission.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wire_messages.h"

namespace foreshock::ingest {
namespace {

using namespace ::foreshock::support;  // NOLINT: the small messages
using ::testing::HasSubstr;

class StreamTest : public ::testing::Test {
 protected:
  absl::Status Report(uint64_t seq) {
    v1::Report report = GoodReport(seq);
    return stream_.OnReport(&report).status();
  }

  IngestStats stats_;
  StreamState stream_{IngestLimits{}, &stats_};
};

TEST_F(StreamTest, HelloComesFirstAndOnce) {
  EXPECT_THAT(Report(1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  "a Report came first; the first message of a stream is a Hello"));
  ASSERT_OK(stream_.OnHello(GoodHello()));
  EXPECT_OK(Report(1));
  EXPECT_THAT(stream_.OnHello(GoodHello()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "a second Hello came; a stream has one, its first message"));
}

TEST_F(StreamTest, ABadHelloLeavesTheStreamUnopened) {
  v1::Hello hello = GoodHello();
  hello.clear_run();
  EXPECT_THAT(stream_.OnHello(hello),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run")));
  EXPECT_THAT(Report(1), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Hello")));
}

// It would make every later report of the process look like a repeat.
TEST_F(StreamTest, ASeqThatIsNonsenseEndsTheStream) {
  ASSERT_OK(stream_.OnHello(GoodHello()));
  EXPECT_OK(Report(1));
  EXPECT_THAT(Report(UINT64_MAX),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("report.seq: found 18446744073709551615; allowed at most 2^40")));
  EXPECT_EQ(stream_.last_seq(), 1u);
  EXPECT_OK(Report(kSeqGapMax));
}

TEST_F(StreamTest, NothingComesAfterGoodbye) {
  EXPECT_THAT(stream_.OnGoodbye(GoodGoodbye()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a Goodbye came first")));
  ASSERT_OK(stream_.OnHello(GoodHello()));
  ASSERT_OK(stream_.OnGoodbye(GoodGoodbye()));
  EXPECT_THAT(Report(1), StatusIs(absl::StatusCode::kInvalidArgument,
                                  "a Report came after the Goodbye, which is the last message of a "
                                  "stream"));
}

TEST_F(StreamTest, SeqGrowsAndMayLeaveGaps) {
  ASSERT_OK(stream_.OnHello(GoodHello()));
  EXPECT_THAT(Report(0), StatusIs(absl::StatusCode::kInvalidArgument,
                                  "report.seq: found 0; allowed more than 0, the one before: seq "
                                  "grows within a stream, gaps are legal"));
  EXPECT_OK(Report(3));
  EXPECT_OK(Report(9));
  EXPECT_THAT(Report(9), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 9")));
  EXPECT_THAT(Report(4), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 4")));
}

TEST_F(StreamTest, StepsMayGoBack) {
  ASSERT_OK(stream_.OnHello(GoodHello()));
  v1::Report later = GoodReport(1, 100);
  v1::Report earlier = GoodReport(2, 90);
  EXPECT_OK(stream_.OnReport(&later).status());
  EXPECT_OK(stream_.OnReport(&earlier).status());
}

TEST_F(StreamTest, ABadSummaryIsClearedAndTheRestStands) {
  ASSERT_OK(stream_.OnHello(GoodHello()));
  v1::Report report = EmptyReport(7);
  *report.add_summaries() = GoodScalars();
  *report.add_summaries() = GoodGates();
  *report.add_summaries() = GoodLoad();
  report.mutable_summaries(1)->mutable_router_gates()->set_layer(4);
  ASSERT_OK_AND_ASSIGN(StreamState::Checked checked, stream_.OnReport(&report));
  EXPECT_TRUE(checked.report_stands);
  ASSERT_EQ(report.summaries_size(), 3);
  EXPECT_TRUE(report.summaries(0).has_scalars());
  EXPECT_EQ(report.summaries(1).payload_case(), v1::Summary::PAYLOAD_NOT_SET);
  EXPECT_TRUE(report.summaries(2).has_router_load());
  ASSERT_EQ(checked.rejections.size(), 1u);
  EXPECT_EQ(checked.rejections[0].seq(), 7u);
  EXPECT_EQ(checked.rejections[0].summary_index(), 1u);
  EXPECT_EQ(checked.rejections[0].code(),
            static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(checked.rejections[0].reason(),
            "summaries[1].router_gates.layer (layer 4): found 4; allowed 0..3 (model.layers of the "
            "Hello)");
  const IngestCounts counts = stats_.Snapshot();
  EXPECT_EQ(counts.reports, 1u);
  EXPECT_EQ(counts.summaries, 3u);
  EXPECT_EQ(counts.summaries_rejected[static_cast<size_t>(absl::StatusCode::kInvalidArgument)], 1u);
}

TEST_F(StreamTest, ABadHeaderCostsTheWholeReportButNotTheStream) {
  ASSERT_OK(stream_.OnHello(GoodHello()));
  v1::Report report = GoodReport(7, -5);
  ASSERT_OK_AND_ASSIGN(StreamState::Checked checked, stream_.OnReport(&report));
  EXPECT_FALSE(checked.report_stands);
  ASSERT_EQ(checked.rejections.size(), 1u);
  EXPECT_FALSE(checked.rejections[0].has_summary_index());
  EXPECT_EQ(checked.rejections[0].reason(), "step: found -5; allowed 0..2^53");
  EXPECT_EQ(stats_.Snapshot().reports_rejected, 1u);
  EXPECT_OK(Report(8));
}

TEST(IsHeavyTest, WeightsAreHeavy) {
  v1::Report report = GoodReport(1);
  *report.add_summaries() = GoodGates();
  EXPECT_FALSE(IsHeavy(report));
  *report.add_summaries() = GoodGram();
  EXPECT_TRUE(IsHeavy(report));
}

v1::Ack MakeAck(uint64_t seq, uint64_t duplicates = 0) {
  v1::Ack ack;
  ack.set_seq(seq);
  ack.set_duplicates(duplicates);
  return ack;
}

TEST(AckQueueTest, MergesAcksIntoOneCumulativeAck) {
  AckQueue acks;
  for (const uint64_t seq : {1, 2, 5}) acks.Submitting(seq);
  EXPECT_FALSE(acks.HasAck());
  acks.OnAck(MakeAck(1, 1));
  acks.OnAck(MakeAck(2, 2));
  EXPECT_FALSE(acks.AllCommitted());
  ASSERT_TRUE(acks.HasAck());
  const v1::Ack ack = acks.Take();
  EXPECT_EQ(ack.seq(), 2u);
  EXPECT_EQ(ack.duplicates(), 3u);
  EXPECT_FALSE(acks.HasAck());
  acks.OnAck(MakeAck(5));
  EXPECT_TRUE(acks.AllCommitted());
  EXPECT_EQ(acks.Take().duplicates(), 0u);
}

TEST(AckQueueTest, ARejectedReportIsAcknowledgedAfterTheOnesBeforeIt) {
  AckQueue acks;
  acks.Submitting(1);
  acks.RejectHere(2, v1::Rejection());
  acks.Submitting(3);
  acks.RejectHere(4, v1::Rejection());
  EXPECT_FALSE(acks.HasAck());
  acks.OnAck(MakeAck(1));
  v1::Ack ack = acks.Take();
  EXPECT_EQ(ack.seq(), 2u);
  ASSERT_EQ(ack.rejections_size(), 1);
  EXPECT_EQ(ack.rejections(0).seq(), 2u);
  acks.OnAck(MakeAck(3));
  ack = acks.Take();
  EXPECT_EQ(ack.seq(), 4u);
  EXPECT_EQ(ack.rejections_size(), 1);
}

TEST(AckQueueTest, ARejectedFirstReportIsAcknowledgedAtOnce) {
  AckQueue acks;
  acks.RejectHere(1, v1::Rejection());
  EXPECT_EQ(acks.Take().seq(), 1u);
}

TEST(AckQueueTest, AReportThatWasNotTakenIsNotWaitedFor) {
  AckQueue acks;
  acks.Submitting(1);
  acks.NotSubmitted();
  EXPECT_TRUE(acks.AllCommitted());
}

TEST(AckQueueTest, TheAckOfAGoodbyeNeedsNoSeq) {
  AckQueue acks;
  acks.Submitting(4);
  acks.OnAck(MakeAck(4));
  (void)acks.Take();
  acks.SubmittingGoodbye();
  EXPECT_FALSE(acks.AllCommitted());
  acks.OnAck(MakeAck(0));
  EXPECT_TRUE(acks.AllCommitted());
  EXPECT_EQ(acks.Take().seq(), 4u);
}

TEST(AdmissionTest, CountsStreamsPerRunAndTogether) {
  IngestStats stats;
  const FakeClock clock;
  Admission admission({.streams_max = 3, .streams_per_run_max = 2}, &stats, &clock);
  ASSERT_OK_AND_ASSIGN(Admission::Stream a1, admission.Enter("a", "x"));
  {
    ASSERT_OK_AND_ASSIGN(Admission::Stream a2, admission.Enter("a", "x"));
    EXPECT_THAT(admission.Enter("a", "x"),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         "no place for another stream of this run: 2 are open, the limit "
                         "(streams_per_run_max)"));
    ASSERT_OK_AND_ASSIGN(Admission::Stream b, admission.Enter("b", "x"));
    EXPECT_THAT(admission.Enter("c", "x"),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         "no place for another stream: 3 are open, the limit (streams_max)"));
    EXPECT_EQ(stats.Snapshot().streams_open, 3u);
  }
  EXPECT_EQ(stats.Snapshot().streams_open, 1u);
  EXPECT_EQ(stats.Snapshot().streams_total, 3u);
  EXPECT_EQ(stats.Snapshot().refused[static_cast<size_t>(Refusal::kStreams)], 1u);
  EXPECT_EQ(stats.Snapshot().refused[static_cast<size_t>(Refusal::kStreamsPerRun)], 1u);
  EXPECT_OK(admission.Enter("a", "x").status());
}

TEST(AdmissionTest, BoundsBytesInFlightButNeverBlocksTheOnlyMessage) {
  IngestStats stats;
  const FakeClock clock;
  Admission admission({.bytes_in_flight_max = 100}, &stats, &clock);
  ASSERT_OK_AND_ASSIGN(Admission::Stream a, admission.Enter("a", "x"));
  ASSERT_OK_AND_ASSIGN(Admission::Stream b, admission.Enter("a", "x"));
  EXPECT_TRUE(a.Hold(1000));
  EXPECT_FALSE(b.Hold(1));
  EXPECT_TRUE(a.Hold(60));  // instead of the 1000
  EXPECT_TRUE(b.Hold(40));
  EXPECT_EQ(stats.Snapshot().bytes_in_flight, 100u);
  {
    Admission::Stream moved = std::move(a);
    EXPECT_EQ(stats.Snapshot().bytes_in_flight, 100u);
  }
  EXPECT_EQ(stats.Snapshot().bytes_in_flight, 40u);
  b.Release();
  EXPECT_EQ(stats.Snapshot().bytes_in_flight, 0u);
}

TEST(AdmissionTest, CountsStreamsOfEachClient) {
  IngestStats stats;
  const FakeClock clock;
  Admission admission({.client_streams_max = 1}, &stats, &clock);
  {
    ASSERT_OK_AND_ASSIGN(Admission::Stream first, admission.Enter("a", "x"));
    EXPECT_THAT(admission.Enter("b", "x"),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         "client 'x' has 1 streams, the limit of each client "
                         "(client_streams_max)"));
    EXPECT_OK(admission.Enter("b", "y").status());
  }
  EXPECT_OK(admission.Enter("b", "x").status());
  EXPECT_EQ(stats.Snapshot().refused[static_cast<size_t>(Refusal::kClientStreams)], 1u);
}

TEST(AdmissionTest, CountsRunsOfEachClientForADay) {
  IngestStats stats;
  FakeClock clock;
  Admission admission({.client_runs_max = 2}, &stats, &clock);
  ASSERT_OK_AND_ASSIGN(Admission::Stream held, admission.Enter("held", "x"));
  EXPECT_OK(admission.Enter("b", "x").status());
  EXPECT_OK(admission.Enter("b", "x").status());
  EXPECT_THAT(admission.Enter("c", "x"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("(client_runs_max)")));
  EXPECT_OK(admission.Enter("c", "y").status());
  clock.Advance(absl::Hours(25));  // b is forgotten, the one with a stream is not
  EXPECT_OK(admission.Enter("c", "x").status());
  EXPECT_THAT(admission.Enter("d", "x"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("(client_runs_max)")));
  EXPECT_EQ(stats.Snapshot().refused[static_cast<size_t>(Refusal::kClientRuns)], 2u);
}

TEST(AdmissionTest, BytesOfAClientArePaidBackOverTime) {
  IngestStats stats;
  FakeClock clock;
  Admission admission({.client_bytes_per_second_max = 100}, &stats, &clock);
  ASSERT_OK_AND_ASSIGN(Admission::Stream one, admission.Enter("a", "x"));
  ASSERT_OK_AND_ASSIGN(Admission::Stream two, admission.Enter("b", "x"));
  ASSERT_OK_AND_ASSIGN(Admission::Stream other, admission.Enter("a", "y"));
  EXPECT_TRUE(one.Spend(300));  // as a whole: 200 overdrawn
  EXPECT_FALSE(two.Spend(1));
  EXPECT_TRUE(other.Spend(1));
  clock.Advance(absl::Seconds(2));
  EXPECT_FALSE(one.Spend(1));
  clock.Advance(absl::Milliseconds(10));
  EXPECT_TRUE(one.Spend(1));
  clock.Advance(absl::Hours(1));  // what was not used is not saved up
  EXPECT_TRUE(one.Spend(150));
  EXPECT_FALSE(one.Spend(1));
}

}  // namespace
}  // namespace foreshock::ingest
