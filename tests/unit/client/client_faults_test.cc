// The client against a daemon that is down, slow, restarting, rejecting or lying.
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "foreshock/v1/errors.pb.h"
#include "tests/unit/client/client_fixture.h"

namespace foreshock::client_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ClientFaultsTest : public ClientTest {};

TEST_F(ClientFaultsTest, WorksBeforeTheDaemonIsUp) {
  daemon_.Stop();
  MakeClient(Options());
  for (int step = 0; step < 50; ++step) ASSERT_OK(PushStep(step));
  EXPECT_FALSE(client_->stats().connected);
  daemon_.Start();
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  ExpectCommittedSteps(50);
}

TEST_F(ClientFaultsTest, SendsAgainWhatARestartedDaemonHasNotCommitted) {
  // The first stream commits three reports, takes more without a word, then is cut.
  daemon_.OnStream([this](FakeStream& stream) {
    if (stream.number > 1) return daemon_.Serve(stream);
    stream.HelloAck(0);
    v1::PushRequest request;
    for (int i = 0; i < 10 && stream.call.Read(&request); ++i) {
      if (i < 3) daemon_.Commit(request.report());
      if (i == 1) stream.Ack(request.report().seq());
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
  });
  MakeClient(Options());
  for (int step = 0; step < 10; ++step) ASSERT_OK(PushStep(step));
  ASSERT_TRUE(daemon_.Await([&] { return daemon_.hellos() >= 2; }));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  ExpectCommittedSteps(10);  // also that the loss was declared again on the second stream
  const ClientStats stats = client_->stats();
  EXPECT_EQ(stats.streams, 2u);
  EXPECT_EQ(stats.resent, 7u);
  EXPECT_EQ(stats.committed, 10u);
  EXPECT_EQ(stats.dropped, 0u);
}

TEST_F(ClientFaultsTest, SurvivesRestartsOfTheProcess) {
  MakeClient(Options());
  int64_t step = 0;
  for (int restart = 0; restart < 3; ++restart) {
    for (int i = 0; i < 20; ++i) ASSERT_OK(PushStep(step++));
    ASSERT_OK(client_->Flush(kPatience));
    daemon_.Stop();
    for (int i = 0; i < 20; ++i) ASSERT_OK(PushStep(step++));
    daemon_.Start();
  }
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  ExpectCommittedSteps(step);
}

TEST_F(ClientFaultsTest, ASlowDaemonCostsDropsAndNeverTime) {
  std::atomic<bool> slow = true;
  daemon_.OnStream([&](FakeStream& stream) {
    daemon_.Await([&] { return !slow; });
    return daemon_.Serve(stream);
  });
  ClientOptions options = Options();
  options.hello_timeout = kPatience;
  options.queue_bytes_max = 10'000;
  MakeClient(options);
  int taken = 0;
  for (int step = 0; step < 30; ++step) {
    const absl::Status status = PushStep(step, 1000);
    if (status.ok()) ++taken;
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_EQ(taken, 9);  // of about 1 050 bytes each
  EXPECT_FALSE(client_->WaitForRoom(1000, absl::Milliseconds(1)));
  EXPECT_EQ(client_->stats().dropped, 21u);
  EXPECT_LE(client_->stats().queue_bytes, 10'000u);
  slow = false;
  EXPECT_TRUE(client_->WaitForRoom(9000, kPatience));
  ASSERT_OK(PushStep(30));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  const auto committed = daemon_.committed();
  EXPECT_EQ(committed.size(), 10u);
  EXPECT_EQ(committed.rbegin()->first, 31u) << "what was dropped shows as a gap";
  EXPECT_THAT(daemon_.faults(), IsEmpty());
}

TEST_F(ClientFaultsTest, RejectionsAreCountedWithTheirReasons) {
  daemon_.OnStream([this](FakeStream& stream) {
    stream.HelloAck(0);
    v1::PushRequest request;
    while (stream.call.Read(&request) && request.has_report()) {
      v1::PushResponse response;
      v1::Ack* ack = response.mutable_ack();
      ack->set_seq(request.report().seq());
      ack->set_duplicates(request.report().step() == 3);
      v1::Rejection rejection;
      rejection.set_seq(request.report().seq());
      if (request.report().step() == 1) {
        rejection.set_summary_index(0);
        rejection.set_reason("a bad summary");
        *ack->add_rejections() = rejection;
      } else if (request.report().step() == 2) {
        rejection.set_reason("a bad report");
        *ack->add_rejections() = rejection;
      } else {
        daemon_.Commit(request.report());
      }
      stream.Send(response);
    }
    return grpc::Status::OK;
  });
  MakeClient(Options());
  for (int step = 0; step < 4; ++step) ASSERT_OK(PushStep(step));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  const ClientStats stats = client_->stats();
  EXPECT_EQ(stats.rejected_summaries, 1u);
  EXPECT_EQ(stats.rejected_reports, 1u);
  EXPECT_EQ(stats.dropped, 1u);
  EXPECT_EQ(stats.committed, 3u);
  EXPECT_EQ(stats.duplicates, 1u);
  EXPECT_THAT(stats.rejections, ElementsAre("seq 2: a bad summary", "seq 3: a bad report"));
}

TEST_F(ClientFaultsTest, AReportRejectedForNowIsSentAgainAfterTheDelay) {
  constexpr absl::Duration kDelay = absl::Milliseconds(100);
  absl::Time rejected;
  absl::Time came_again;
  daemon_.OnStream([&](FakeStream& stream) {
    stream.HelloAck(0);
    v1::PushRequest request;
    while (stream.call.Read(&request) && request.has_report()) {
      v1::PushResponse response;
      response.mutable_ack()->set_seq(request.report().seq());
      if (request.report().step() == 0 && rejected == absl::Time()) {
        v1::Rejection* rejection = response.mutable_ack()->add_rejections();
        rejection->set_seq(request.report().seq());
        rejection->set_reason("no room");
        rejection->mutable_retry_delay()->set_nanos(
            static_cast<int32_t>(absl::ToInt64Nanoseconds(kDelay)));
        rejected = absl::Now();
      } else {
        if (request.report().step() == 0) came_again = absl::Now();
        daemon_.Commit(request.report());
      }
      stream.Send(response);
    }
    return grpc::Status::OK;
  });
  MakeClient(Options());
  ASSERT_OK(PushStep(0));
  ASSERT_OK(client_->Flush(kPatience));
  EXPECT_GE(came_again - rejected, kDelay);
  EXPECT_EQ(daemon_.committed().begin()->first, 2u) << "under a new seq";
  EXPECT_EQ(client_->stats().dropped, 0u);
}

grpc::Status ResourceExhausted(absl::Duration delay) {
  v1::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  v1::ErrorStatus details;
  google::protobuf::Any* any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(retry.SerializeAsString());
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "disk full",
                      details.SerializeAsString());
}

TEST_F(ClientFaultsTest, AStreamRefusedForNowComesBackAfterTheDelay) {
  constexpr absl::Duration kDelay = absl::Milliseconds(150);
  absl::Time refused;
  absl::Time came_again;
  daemon_.OnStream([&](FakeStream& stream) {
    if (stream.number == 1) {
      refused = absl::Now();
      return ResourceExhausted(kDelay);
    }
    came_again = absl::Now();
    return daemon_.Serve(stream);
  });
  MakeClient(Options());
  ASSERT_OK(PushStep(0));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  EXPECT_GE(came_again - refused, kDelay);
  EXPECT_THAT(client_->stats().last_error, HasSubstr("disk full"));
  ExpectCommittedSteps(1);
}

TEST_F(ClientFaultsTest, AMessageThatNoStreamSurvivesIsGivenUp) {
  daemon_.OnStream([&](FakeStream& stream) {
    stream.HelloAck(0);
    v1::PushRequest request;
    uint64_t seq = 0;
    while (stream.call.Read(&request) && request.has_report()) {
      if (request.ByteSizeLong() > 2000) {
        return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "message too large");
      }
      seq = request.report().seq();
      if (daemon_.committed().count(seq) == 0) daemon_.Commit(request.report());
    }
    stream.Ack(seq);
    return grpc::Status::OK;
  });
  MakeClient(Options());
  ASSERT_OK(PushStep(0, 10));
  ASSERT_OK(PushStep(1, 5000));
  ASSERT_OK(PushStep(2, 10));
  ASSERT_TRUE(daemon_.Await([&] { return client_->stats().dropped == 1; }));
  ASSERT_TRUE(daemon_.Await([&] { return daemon_.committed().size() == 2; }));
  EXPECT_THAT(client_->stats().rejections, ElementsAre(HasSubstr("message too large")));
  EXPECT_THAT(client_->stats().rejections, ElementsAre(HasSubstr("seq 2 of 5")));
}

TEST_F(ClientFaultsTest, InvalidArgumentIsNeverRetried) {
  daemon_.OnStream([](FakeStream&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "hello.run: too long");
  });
  MakeClient(Options());
  (void)PushStep(0);
  ASSERT_TRUE(daemon_.Await([&] { return client_->stats().refused; }));
  EXPECT_THAT(PushStep(1), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("hello.run: too long")));
  EXPECT_THAT(client_->Flush(kPatience),
              support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused")));
  EXPECT_FALSE(client_->WaitForRoom(1, kPatience));
  EXPECT_THAT(client_->Close(v1::OUTCOME_FINISHED, kPatience),
              support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused")));
  EXPECT_EQ(client_->stats().queue_reports, 0u);
  EXPECT_EQ(client_->stats().dropped, 2u);
  client_.reset();  // its thread is gone: nothing can follow
  EXPECT_EQ(daemon_.hellos(), 1);
}

TEST_F(ClientFaultsTest, LimitsOfTheDaemonHold) {
  daemon_.Stop();
  v1::Limits limits;
  limits.set_message_bytes_max(1000);
  daemon_.set_limits(limits);
  MakeClient(Options());
  ASSERT_OK(PushStep(0));
  ASSERT_OK(PushStep(1, 5000));  // the limit is not known yet
  daemon_.Start();
  ASSERT_OK(client_->Flush(kPatience));
  EXPECT_THAT(PushStep(2, 5000),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("allowed are 1000")));
  EXPECT_EQ(client_->stats().dropped, 2u);
  EXPECT_THAT(client_->stats().rejections, ElementsAre(HasSubstr("the daemon allows 1000")));
  ExpectCommittedSteps(1);
}

TEST_F(ClientFaultsTest, ALyingDaemonIsLeftAndNothingIsLost) {
  using Lie = void (*)(FakeStream&);
  struct Case {
    const char* what;
    Lie lie;
    const char* found;
  };
  const Case kCases[] = {
      {"committed more than was sent", [](FakeStream& s) { s.HelloAck(1000); },
       "last_committed_seq is 1000"},
      {"acknowledges more than was sent",
       [](FakeStream& s) {
         s.HelloAck(0);
         s.Ack(1000);
       },
       "Ack of seq 1000"},
      {"greets twice",
       [](FakeStream& s) {
         s.HelloAck(0);
         s.HelloAck(0);
       },
       "a second HelloAck"},
      {"acknowledges before it greets", [](FakeStream& s) { s.Ack(1); }, "an Ack before"},
      {"says nothing", [](FakeStream& s) { s.Send({}); }, "without a message"},
  };
  for (const Case& c : kCases) {
    FakeDaemon daemon;
    daemon.OnStream([&](FakeStream& stream) {
      if (stream.number > 1) return daemon.Serve(stream);
      c.lie(stream);
      v1::PushRequest request;
      while (stream.call.Read(&request)) continue;
      return grpc::Status::OK;
    });
    ClientOptions options = Options();
    options.target = daemon.target();
    MakeClient(options);
    for (int step = 0; step < 5; ++step) ASSERT_OK(PushStep(step));
    ASSERT_TRUE(daemon.Await([&] { return daemon.hellos() == 2; })) << c.what;
    EXPECT_THAT(client_->stats().last_error, HasSubstr(c.found)) << c.what;
    ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience)) << c.what;
    EXPECT_EQ(daemon.committed().size(), 5u) << c.what;
    EXPECT_THAT(daemon.faults(), IsEmpty()) << c.what;
    client_.reset();
  }
}

TEST_F(ClientFaultsTest, AKindOfAnswerThatANewerDaemonHasIsPassedOver) {
  daemon_.OnStream([this](FakeStream& stream) {
    v1::PushResponse newer;
    EXPECT_TRUE(newer.ParseFromString(std::string("\x80\x7d\x2a", 3)));  // field 2000: 42
    stream.Send(newer);
    return daemon_.Serve(stream);
  });
  MakeClient(Options());
  for (int step = 0; step < 5; ++step) ASSERT_OK(PushStep(step));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  EXPECT_EQ(client_->stats().streams, 1u);
  ExpectCommittedSteps(5);
}

TEST_F(ClientFaultsTest, AnInstanceOfAnEarlierProcessMayBeAheadOfUs) {
  daemon_.OnStream([&](FakeStream& stream) {
    stream.HelloAck(8);
    v1::PushRequest request;
    while (stream.call.Read(&request) && request.has_report()) {
      if (request.report().seq() > 8) daemon_.Commit(request.report());
      stream.Ack(std::max<uint64_t>(8, request.report().seq()));
    }
    return grpc::Status::OK;
  });
  ClientOptions options = Options();
  options.client_instance = "recorded";
  MakeClient(options);
  for (int step = 0; step < 10; ++step) ASSERT_OK(PushStep(step));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  EXPECT_EQ(daemon_.committed().size(), 2u);
  EXPECT_EQ(client_->stats().acked_seq, 10u);
}

TEST_F(ClientFaultsTest, ADaemonThatNeverGreetsIsLeft) {
  daemon_.OnStream([&](FakeStream& stream) {
    if (stream.number > 1) return daemon_.Serve(stream);
    v1::PushRequest request;
    while (stream.call.Read(&request)) continue;
    return grpc::Status::OK;
  });
  ClientOptions options = Options();
  options.hello_timeout = absl::Milliseconds(50);
  MakeClient(options);
  ASSERT_OK(PushStep(0));
  ASSERT_TRUE(daemon_.Await([&] { return daemon_.hellos() >= 2; }));
  EXPECT_THAT(client_->stats().last_error, HasSubstr("no HelloAck within 50ms"));
}

TEST_F(ClientFaultsTest, CloseGivesUpAtItsDeadlineAndSaysWhatIsLost) {
  daemon_.Stop();
  MakeClient(Options());
  ASSERT_OK(PushStep(0));
  ASSERT_OK(PushStep(1));
  EXPECT_THAT(client_->Flush(absl::Milliseconds(10)),
              support::StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("2 reports")));
  EXPECT_THAT(
      client_->Close(v1::OUTCOME_FINISHED, absl::Milliseconds(10)),
      support::StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("2 reports are lost")));
}

TEST_F(ClientFaultsTest, EndsAtOnceWhenTheDaemonDoesNotReact) {
  std::atomic<bool> release = false;
  daemon_.OnStream([&](FakeStream& stream) {
    stream.HelloAck(0);
    daemon_.Await([&] { return release.load(); });
    return grpc::Status::OK;
  });
  MakeClient(Options());
  // More than the transport buffers, so that the background thread is inside a write.
  for (int step = 0; step < 30; ++step) ASSERT_OK(PushStep(step, 1 << 20));
  ASSERT_TRUE(daemon_.Await([&] { return client_->stats().connected; }));
  const absl::Time start = absl::Now();
  client_.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  release = true;
  daemon_.Stop();  // its handler reads `release`
}

}  // namespace
}  // namespace foreshock::client_internal
