// The protocol of ingestion over a real socket: order, acks, rejections, ends.
#include <string>
#include <vector>

#include "tests/integration/ingest_fixture.h"
#include "tests/support/raw_call.h"

namespace foreshock::integration {
namespace {

using namespace ::foreshock::support;  // NOLINT: the small messages
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint64_t> Seqs(const std::vector<v1::Report>& reports) {
  std::vector<uint64_t> seqs;
  for (const v1::Report& report : reports) seqs.push_back(report.seq());
  return seqs;
}

TEST_F(IngestFixture, AWholeStream) {
  Start();
  Sender sender(stub_.get());
  EXPECT_EQ(sender.Enter().attempt(), 1u);
  for (const uint64_t seq : {1, 2, 5}) sender.Send(GoodReport(seq, static_cast<int64_t>(seq)));
  sender.Send(GoodGoodbye());
  const grpc::Status status = sender.End();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(sender.last_seq(), 5u);
  EXPECT_THAT(Seqs(sink_.reports()), ElementsAre(1, 2, 5));
  ASSERT_EQ(sink_.goodbyes().size(), 1u);
  EXPECT_EQ(sink_.goodbyes()[0].outcome(), v1::OUTCOME_FINISHED);
  EXPECT_TRUE(sink_.Await([&] { return sink_.open_streams() == 0; }));
  const ingest::IngestCounts counts = stats_.Snapshot();
  EXPECT_EQ(counts.reports, 3u);
  EXPECT_EQ(counts.streams_total, 1u);
  EXPECT_GT(counts.bytes, 0u);
  EXPECT_EQ(counts.bytes_in_flight, 0u);
}

TEST_F(IngestFixture, AcksComeWithTheCommitAndForAllAtOnce) {
  Start();
  sink_.Set({.commit_at_once = false});
  Sender sender(stub_.get());
  sender.Enter();
  for (uint64_t seq = 1; seq <= 5; ++seq) sender.Send(GoodReport(seq));
  ASSERT_TRUE(sink_.Await([&] { return sink_.reports().size() == 5; }));
  sink_.Commit();
  EXPECT_EQ(sender.AwaitAck(5).seq(), 5u);
}

TEST_F(IngestFixture, RepeatedReportsAreAcceptedAndCounted) {
  Start();
  sink_.Set({.last_committed_seq = 3});
  Sender sender(stub_.get());
  EXPECT_EQ(sender.Enter().last_committed_seq(), 3u);
  for (uint64_t seq = 2; seq <= 4; ++seq) sender.Send(GoodReport(seq));
  EXPECT_EQ(sender.AwaitAck(4).duplicates(), 2u);
  EXPECT_EQ(stats_.Snapshot().duplicates, 2u);
}

TEST_F(IngestFixture, ABadSummaryIsRejectedByItself) {
  Start();
  Sender sender(stub_.get());
  sender.Enter();
  v1::Report report = GoodReport(1);
  *report.add_summaries() = GoodGates();
  report.mutable_summaries(1)->mutable_router_gates()->mutable_scores()->mutable_data()->resize(40);
  sender.Send(report);
  const v1::Ack ack = sender.AwaitAck(1);
  ASSERT_EQ(ack.rejections_size(), 1);
  EXPECT_EQ(ack.rejections(0).seq(), 1u);
  EXPECT_EQ(ack.rejections(0).summary_index(), 1u);
  EXPECT_EQ(ack.rejections(0).reason(),
            "summaries[1].router_gates.scores.data (layer 1): found 40 bytes; allowed 48 bytes "
            "(shape [3, 4] of F32)");
  ASSERT_EQ(sink_.reports().size(), 1u);
  EXPECT_TRUE(sink_.reports()[0].summaries(0).has_scalars());
  EXPECT_FALSE(sink_.reports()[0].summaries(1).has_router_gates());
}

TEST_F(IngestFixture, ARejectedReportIsAcknowledgedInItsTurnAndTheStreamGoesOn) {
  Start();
  sink_.Set({.commit_at_once = false});
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  sender.Send(GoodReport(2, -1));
  sender.Send(GoodReport(3));
  ASSERT_TRUE(sink_.Await([&] { return sink_.reports().size() == 2; }));
  sink_.Commit();
  const v1::Ack ack = sender.AwaitAck(3);
  ASSERT_EQ(ack.rejections_size(), 1);
  EXPECT_EQ(ack.rejections(0).seq(), 2u);
  EXPECT_FALSE(ack.rejections(0).has_summary_index());
  EXPECT_THAT(Seqs(sink_.reports()), ElementsAre(1, 3));
}

TEST_F(IngestFixture, AStreamWithoutGoodbyeEndsOnceItIsAcknowledged) {
  Start();
  sink_.Set({.commit_at_once = false});
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  sender.CloseInput();
  ASSERT_TRUE(sink_.Await([&] { return sink_.reports().size() == 1; }));
  sink_.Commit();
  EXPECT_TRUE(sender.End().ok());
  EXPECT_EQ(sender.last_seq(), 1u);
  EXPECT_TRUE(sink_.goodbyes().empty());
}

TEST_F(IngestFixture, TheFirstMessageIsAHello) {
  Start();
  Sender sender(stub_.get());
  sender.Send(GoodReport(1));
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(),
            "a Report came first; the first message of a stream is a Hello");
  EXPECT_TRUE(sink_.hellos().empty());
  EXPECT_EQ(Refused(ingest::Refusal::kProtocol), 1u);
}

TEST_F(IngestFixture, ASecondHelloEndsTheStream) {
  Start();
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodHello());
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "a second Hello came; a stream has one, its first message");
  EXPECT_EQ(sink_.hellos().size(), 1u);
}

TEST_F(IngestFixture, ABadHelloIsNotOpened) {
  Start();
  Sender sender(stub_.get());
  v1::Hello hello = GoodHello();
  hello.set_rank(99);
  sender.Send(hello);
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "hello: rank: found 99; allowed 0..3 (below world_size)");
  EXPECT_TRUE(sink_.hellos().empty());
  EXPECT_EQ(Refused(ingest::Refusal::kBadHello), 1u);
}

TEST_F(IngestFixture, AnEmptyMessageEndsTheStream) {
  Start();
  Sender sender(stub_.get());
  sender.Enter();
  sender.SendNothing();
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("none of hello, report and goodbye"));
}

TEST_F(IngestFixture, BytesThatCannotBeParsedEndTheStreamAndTheEndOfAStreamDoesNot) {
  Start();
  const auto push = [this](const std::string& bytes) {
    grpc::Status status;
    support::RawCall(channel_, "/foreshock.v1.IngestService/Push", bytes, &status);
    return status;
  };
  v1::PushRequest hello;
  *hello.mutable_hello() = support::GoodHello();
  EXPECT_TRUE(push(hello.SerializeAsString()).ok());
  const std::string cut = hello.SerializeAsString().substr(0, 20);
  for (const std::string& bytes : {std::string("\xff\xff\xff"), cut}) {
    const grpc::Status status = push(bytes);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("cannot be parsed"));
  }
  EXPECT_EQ(Refused(ingest::Refusal::kProtocol), 2u);
}

TEST_F(IngestFixture, ASeqThatGoesBackEndsTheStreamAfterItsAcks) {
  Start();
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(4));
  sender.AwaitAck(4);
  sender.Send(GoodReport(4));
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("report.seq: found 4; allowed more than 4"));
}

TEST_F(IngestFixture, TheSinksWordOnAHelloReachesTheSender) {
  Start();
  sink_.Set({.open = absl::AlreadyExistsError("rank 1 is held by another process")});
  Sender sender(stub_.get());
  sender.Send(GoodHello());
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "rank 1 is held by another process");
  EXPECT_EQ(Refused(ingest::Refusal::kSink), 1u);
}

TEST_F(IngestFixture, TheSinkMayEndAStream) {
  Start();
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  sender.AwaitAck(1);
  sink_.EndAll(absl::AbortedError("the same process has opened a newer stream"));
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_EQ(status.error_message(), "the same process has opened a newer stream");
}

TEST_F(IngestFixture, ACancelledStreamLeavesNothingBehind) {
  Start();
  sink_.Set({.commit_at_once = false});
  {
    Sender sender(stub_.get());
    sender.Enter();
    sender.Send(GoodReport(1));
    ASSERT_TRUE(sink_.Await([&] { return sink_.reports().size() == 1; }));
    sender.Cancel();
    EXPECT_EQ(sender.End().error_code(), grpc::CANCELLED);
  }
  EXPECT_TRUE(sink_.Await([&] { return sink_.open_streams() == 0; }));
  sink_.Commit();  // late, for nobody
  EXPECT_TRUE(sink_.Await([&] { return stats_.Snapshot().streams_open == 0; }));
}

TEST_F(IngestFixture, ManyStreamsAtOnceEachInOrder) {
  Start();
  constexpr uint32_t kRanks = 32;
  constexpr uint64_t kReports = 20;
  std::vector<std::unique_ptr<Sender>> senders;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    senders.push_back(std::make_unique<Sender>(stub_.get()));
    senders.back()->Enter(HelloOf(rank));
  }
  for (uint64_t seq = 1; seq <= kReports; ++seq) {
    for (auto& sender : senders) sender->Send(GoodReport(seq, static_cast<int64_t>(seq)));
  }
  for (auto& sender : senders) sender->Send(GoodGoodbye());
  for (auto& sender : senders) {
    EXPECT_TRUE(sender->End().ok());
    EXPECT_EQ(sender->last_seq(), kReports);
  }
  EXPECT_EQ(sink_.reports().size(), kRanks * kReports);
  EXPECT_EQ(sink_.goodbyes().size(), kRanks);
}

TEST_F(IngestFixture, PushOnceAnswersWhenCommitted) {
  Start();
  v1::PushOnceRequest request;
  *request.mutable_hello() = GoodHello();
  *request.add_reports() = GoodReport(1);
  *request.add_reports() = GoodReport(2, -1);
  *request.add_reports() = GoodReport(3);
  *request.mutable_goodbye() = GoodGoodbye();
  grpc::ClientContext context;
  v1::PushOnceResponse response;
  const grpc::Status status = stub_->PushOnce(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.hello_ack().attempt(), 1u);
  EXPECT_EQ(response.ack().seq(), 3u);
  ASSERT_EQ(response.ack().rejections_size(), 1);
  EXPECT_EQ(response.ack().rejections(0).reason(), "step: found -1; allowed 0..2^53");
  EXPECT_THAT(Seqs(sink_.reports()), ElementsAre(1, 3));
  EXPECT_EQ(sink_.goodbyes().size(), 1u);
}

TEST_F(IngestFixture, PushOnceRespectsTheCallersDeadline) {
  Start();
  sink_.Set({.commit_at_once = false});
  v1::PushOnceRequest request;
  *request.mutable_hello() = GoodHello();
  *request.add_reports() = GoodReport(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::PushOnceResponse response;
  EXPECT_EQ(stub_->PushOnce(&context, request, &response).error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(sink_.Await([&] { return sink_.open_streams() == 0; }));
}

TEST_F(IngestFixture, PushOnceWithABadHello) {
  Start();
  grpc::ClientContext context;
  v1::PushOnceResponse response;
  const grpc::Status status = stub_->PushOnce(&context, v1::PushOnceRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "hello: run: found 0 bytes; allowed 1..256 bytes");
}

TEST_F(IngestFixture, HealthAndReflectionAnswer) {
  Start();
  EXPECT_EQ(CheckHealth(channel_, "foreshock.v1.IngestService"), Health::kServing);
  EXPECT_EQ(CheckHealth(channel_, "foreshock.v1.Nobody"), Health::kNotFound);
  EXPECT_THAT(ReflectedServices(channel_), HasSubstr("foreshock.v1.IngestService"));
}

}  // namespace
}  // namespace foreshock::integration
