// What happens when there is too much of something, and at the end of the daemon.
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/ingest_fixture.h"

namespace foreshock::integration {
namespace {

using namespace ::foreshock::support;  // NOLINT: the small messages
using ::testing::HasSubstr;

// Room for one step of waiting or so: tests that want a refusal need not wait long for it.
ingest::IngestService::Options Impatient() {
  return {.submit_wait_max = absl::Milliseconds(40),
          .submit_retry_interval = absl::Milliseconds(5),
          .retry_delay = absl::Milliseconds(1500)};
}

TEST_F(IngestFixture, AReportThatFindsNoRoomIsKeptAndTriedAgain) {
  Start({.submit_retry_interval = absl::Milliseconds(1)});
  sink_.Set({.submit = absl::ResourceExhaustedError("the queue is full"), .submit_refusals = 3});
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  sender.Send(GoodReport(2));
  sender.AwaitAck(2);
  EXPECT_EQ(sink_.refusals(), 3);
  EXPECT_EQ(sink_.reports().size(), 2u);
  EXPECT_EQ(stats_.Snapshot().submit_retries, 3u);
}

TEST_F(IngestFixture, WhileAReportWaitsTheNextIsNotRead) {
  Start();
  std::promise<void> entered;
  std::promise<void> release;
  auto released = release.get_future().share();
  sink_.Set({.on_submit = [&entered, released](const v1::Report& report) {
    if (report.seq() == 1) entered.set_value();
    released.wait();
  }});
  Sender sender(stub_.get());
  sender.Enter();
  for (uint64_t seq = 1; seq <= 3; ++seq) sender.Send(GoodReport(seq));
  entered.get_future().wait();
  EXPECT_EQ(stats_.Snapshot().reports, 1u);
  EXPECT_GT(stats_.Snapshot().bytes_in_flight, 0u);
  release.set_value();
  sender.AwaitAck(3);
  EXPECT_EQ(stats_.Snapshot().reports, 3u);
}

TEST_F(IngestFixture, ALastingLackOfRoomEndsTheStreamWithARetryDelay) {
  Start(Impatient());
  sink_.Set({.submit = absl::ResourceExhaustedError("the ingest queue holds 64 of 64 bytes")});
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "the ingest queue holds 64 of 64 bytes");
  EXPECT_DOUBLE_EQ(RetrySeconds(status), 1.5);
  EXPECT_EQ(sink_.refusals(), 9);  // once, then 40 ms / 5 ms times again
  EXPECT_EQ(Refused(ingest::Refusal::kOverload), 1u);
}

TEST_F(IngestFixture, PushOnceSaysAtOnceThatThereIsNoRoom) {
  Start(Impatient());
  sink_.Set({.submit = absl::ResourceExhaustedError("the queue is full")});
  v1::PushOnceRequest request;
  *request.mutable_hello() = GoodHello();
  *request.add_reports() = GoodReport(1);
  grpc::ClientContext context;
  v1::PushOnceResponse response;
  const grpc::Status status = stub_->PushOnce(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_DOUBLE_EQ(RetrySeconds(status), 1.5);
  EXPECT_EQ(sink_.refusals(), 1);
}

TEST_F(IngestFixture, PushOnceDoesNotWaitForEverForACommit) {
  Start(Impatient());
  sink_.Set({.commit_at_once = false});
  v1::PushOnceRequest request;
  *request.mutable_hello() = GoodHello();
  *request.add_reports() = GoodReport(1);
  grpc::ClientContext context;
  v1::PushOnceResponse response;
  const grpc::Status status = stub_->PushOnce(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("not committed within 40ms"));
  EXPECT_DOUBLE_EQ(RetrySeconds(status), 1.5);
}

TEST_F(IngestFixture, ACancelledSenderIsNotRetriedFor) {
  Start({.submit_wait_max = absl::Hours(1), .submit_retry_interval = absl::Hours(1)});
  sink_.Set({.submit = absl::ResourceExhaustedError("the queue is full")});
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  ASSERT_TRUE(sink_.Await([&] { return sink_.refusals() == 1; }));
  sender.Cancel();
  EXPECT_EQ(sender.End().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(sink_.Await([&] { return sink_.open_streams() == 0; }));
}

TEST_F(IngestFixture, ReportsWithWeightsDoNotHoldUpTheOthers) {
  Start({.heavy_threads = 1});
  std::promise<void> release;
  auto released = release.get_future().share();
  sink_.Set({.on_submit = [released](const v1::Report& report) {
    if (report.summaries(0).has_qk_gram()) released.wait();
  }});
  v1::Report heavy = EmptyReport(1);
  *heavy.add_summaries() = GoodGram();
  std::vector<std::unique_ptr<Sender>> slow;
  for (uint32_t rank = 0; rank < 16; ++rank) {  // more than gRPC has threads
    slow.push_back(std::make_unique<Sender>(stub_.get()));
    slow.back()->Enter(HelloOf(rank));
    slow.back()->Send(heavy);
  }
  Sender fast(stub_.get());
  fast.Enter(HelloOf(16));
  for (uint64_t seq = 1; seq <= 10; ++seq) fast.Send(GoodReport(seq));
  EXPECT_EQ(fast.AwaitAck(10).seq(), 10u);
  release.set_value();
  for (auto& sender : slow) EXPECT_EQ(sender->AwaitAck(1).seq(), 1u);
}

TEST_F(IngestFixture, StreamsBeyondTheLimitAreRefused) {
  Start({.limits = {.streams_per_run_max = 1}});
  Sender first(stub_.get());
  first.Enter(HelloOf(0));
  Sender second(stub_.get());
  second.Send(HelloOf(1));
  const grpc::Status status = second.End();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("streams_per_run_max"));
  EXPECT_DOUBLE_EQ(RetrySeconds(status), 1);
  EXPECT_EQ(Refused(ingest::Refusal::kStreamsPerRun), 1u);
}

TEST_F(IngestFixture, ATooLargeMessageIsRefusedNamingTheLimitAndWithoutARetry) {
  Start({.limits = {.message_bytes_max = 65536}});
  Sender sender(stub_.get());
  sender.Enter();
  v1::Report report = EmptyReport(1);
  v1::RouterGates* gates = report.add_summaries()->mutable_router_gates();
  *gates->mutable_scores() = FilledTensor({8192, 4}, 0.25f);
  sender.Send(report);
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("65536"));
  EXPECT_EQ(RetrySeconds(status), -1);
  EXPECT_TRUE(sink_.reports().empty());
}

TEST_F(IngestFixture, ASenderThatReadsNoAcksIsNotReadForEver) {
  Start({.limits = {.rejections_queued_max = 10}});
  sink_.Set({.commit_at_once = false});
  Sender sender(stub_.get());
  sender.Enter();
  for (uint64_t seq = 1; seq <= 30; ++seq) {
    v1::Report report = seq == 1 ? GoodReport(seq) : GoodReport(seq, -1);
    sender.Send(report);
  }
  // The first report is not committed, so no rejection may be told yet: eleven pile up.
  ASSERT_TRUE(sink_.Await([&] { return stats_.Snapshot().reports_rejected == 11; }));
  sink_.Commit();
  EXPECT_EQ(sender.AwaitAck(30).rejections_size(), 29);
}

TEST_F(IngestFixture, DrainingEndsStreamsOnceTheyAreAcknowledged) {
  Start();
  sink_.Set({.commit_at_once = false});
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  ASSERT_TRUE(sink_.Await([&] { return sink_.reports().size() == 1; }));
  service_->Drain();
  sink_.Commit();
  const grpc::Status status = sender.End();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(sender.last_seq(), 1u);
  EXPECT_EQ(Refused(ingest::Refusal::kDraining), 1u);
}

TEST_F(IngestFixture, DrainingRefusesNewStreamsAndCalls) {
  Start();
  service_->Drain();
  Sender sender(stub_.get());
  sender.Send(GoodHello());
  EXPECT_EQ(sender.End().error_code(), grpc::UNAVAILABLE);
  v1::PushOnceRequest request;
  *request.mutable_hello() = GoodHello();
  grpc::ClientContext context;
  v1::PushOnceResponse response;
  EXPECT_EQ(stub_->PushOnce(&context, request, &response).error_code(), grpc::UNAVAILABLE);
  EXPECT_TRUE(sink_.hellos().empty());
}

TEST_F(IngestFixture, DrainingWakesAReportThatWaitsForRoom) {
  Start({.submit_wait_max = absl::Hours(1), .submit_retry_interval = absl::Hours(1)});
  sink_.Set({.submit = absl::ResourceExhaustedError("the queue is full")});
  Sender sender(stub_.get());
  sender.Enter();
  sender.Send(GoodReport(1));
  ASSERT_TRUE(sink_.Await([&] { return sink_.refusals() == 1; }));
  service_->Drain();
  EXPECT_EQ(sender.End().error_code(), grpc::UNAVAILABLE);
}

TEST_F(IngestFixture, AnIdleStreamDoesNotHoldUpTheEnd) {
  Start();
  Sender sender(stub_.get());
  sender.Enter();
  service_->Drain();
  EXPECT_OK(server_->Shutdown(absl::Seconds(10)));
  EXPECT_EQ(sender.End().error_code(), grpc::UNAVAILABLE);
}

}  // namespace
}  // namespace foreshock::integration
