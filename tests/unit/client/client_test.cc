#include "foreshock/client.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/unit/client/client_fixture.h"

namespace foreshock::client_internal {
namespace {

using ::testing::HasSubstr;

TEST_F(ClientTest, DeliversReportsInOrderAndSaysGoodbye) {
  ClientOptions options = Options();
  options.model.set_layers(3);
  options.labels = {{"team", "x"}};
  options.resume_step = 0;
  v1::Hello hello;
  daemon_.OnStream([&](FakeStream& stream) {
    hello = stream.hello;
    return daemon_.Serve(stream);
  });
  MakeClient(options);
  for (int step = 0; step < 100; ++step) ASSERT_OK(PushStep(step));
  ASSERT_OK(client_->Flush(kPatience));
  EXPECT_EQ(client_->acked_seq(), 100u);
  EXPECT_TRUE(client_->stats().connected);
  ASSERT_OK(client_->Close(v1::OUTCOME_FAILED, kPatience));

  ExpectCommittedSteps(100);
  ASSERT_EQ(daemon_.goodbyes().size(), 1u);
  EXPECT_EQ(daemon_.goodbyes()[0].outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(hello.run(), "run");
  EXPECT_EQ(hello.rank(), 1u);
  EXPECT_EQ(hello.world_size(), 2u);
  EXPECT_EQ(hello.model().layers(), 3u);
  EXPECT_EQ(hello.labels().at("team"), "x");
  EXPECT_TRUE(hello.has_resume_step());
  EXPECT_FALSE(hello.has_parent_attempt());
  EXPECT_EQ(hello.client_instance().size(), 32u);
  EXPECT_THAT(hello.client_version(), HasSubstr("foreshock-cpp/"));
  const ClientStats stats = client_->stats();
  EXPECT_EQ(stats.pushed, 100u);
  EXPECT_EQ(stats.committed, 100u);
  EXPECT_EQ(stats.dropped, 0u);
  EXPECT_EQ(stats.resent, 0u);
  EXPECT_EQ(stats.streams, 1u);
  EXPECT_EQ(stats.attempt, 1u);
  EXPECT_EQ(stats.queue_bytes, 0u);
}

TEST_F(ClientTest, OptionsOfAHelloMakeTheSameHello) {
  v1::Hello hello;
  hello.set_run("r");
  hello.set_launch_id("l");
  hello.set_client_instance("i");
  hello.set_rank(2);
  hello.mutable_coordinates()->set_data(1);
  hello.set_world_size(4);
  hello.mutable_model()->set_heads(8);
  hello.add_plan()->set_every_steps(10);
  hello.set_parent_attempt(1);
  hello.set_resume_step(0);
  (*hello.mutable_labels())["a"] = "b";
  ClientOptions options = Client::OptionsOf(hello);
  options.target = daemon_.target();
  v1::Hello got;
  daemon_.OnStream([&](FakeStream& stream) {
    got = stream.hello;
    return daemon_.Serve(stream);
  });
  MakeClient(options);
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  daemon_.Stop();  // the thread that wrote `got` is gone
  got.clear_client_version();
  EXPECT_EQ(got.SerializeAsString(), hello.SerializeAsString());
}

TEST_F(ClientTest, ReportsOfManyThreadsAreEachCommittedOnce) {
  MakeClient(Options());
  constexpr int kThreads = 4;
  constexpr int kReports = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kReports; ++i) EXPECT_OK(PushStep(t * kReports + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  const auto committed = daemon_.committed();
  EXPECT_EQ(committed.size(), static_cast<size_t>(kThreads * kReports));
  EXPECT_EQ(committed.rbegin()->first, static_cast<uint64_t>(kThreads * kReports));
  EXPECT_THAT(daemon_.faults(), ::testing::IsEmpty());
}

TEST_F(ClientTest, ALargeReportIsSplitBetweenItsSummaries) {
  ClientOptions options = Options();
  options.message_bytes_max = 4000;
  MakeClient(options);
  StepReport report(3);
  report.Tokens(17).Scalar(loss_, 1);
  for (int i = 0; i < 10; ++i) {
    report.AddSummary()->mutable_router_gates()->mutable_scores()->set_data(std::string(1000, 'x'));
  }
  ASSERT_OK(client_->Push(std::move(report).Take()));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  const auto committed = daemon_.committed();
  ASSERT_EQ(committed.size(), 4u);
  EXPECT_TRUE(committed.rbegin()->second.last_of_step());
  EXPECT_FALSE(committed.begin()->second.last_of_step());
  EXPECT_EQ(committed.begin()->second.tokens(), 17u);
}

TEST_F(ClientTest, BadReportsAreRefusedAndCountedAndTheRestGoesOn) {
  ClientOptions options = Options();
  options.message_bytes_max = 2000;
  MakeClient(options);
  StepReport undeclared(0);
  undeclared.Scalar(loss_ + 1, 1);
  EXPECT_THAT(client_->Push(std::move(undeclared).Take()),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("never declared")));
  EXPECT_THAT(PushStep(0, 3000),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("allowed are 2000")));
  const uint64_t dropped = client_->stats().dropped;
  EXPECT_EQ(dropped, 2u);
  ASSERT_OK(PushStep(1));
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  EXPECT_THAT(PushStep(2), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("the client is closed")));
  EXPECT_THAT(client_->Close(v1::OUTCOME_FINISHED, kPatience),
              support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("closed")));
  EXPECT_EQ(client_->stats().dropped, 3u);
}

TEST(ClientOptionsTest, WrongOptionsAreNamed) {
  const ClientOptions kGood = {.target = "127.0.0.1:1", .run = "r", .launch_id = "l"};
  ASSERT_OK(Client::Create(kGood));
  struct Case {
    const char* option;
    void (*spoil)(ClientOptions&);
  };
  const Case kCases[] = {
      {"target", [](ClientOptions& o) { o.target.clear(); }},
      {"run", [](ClientOptions& o) { o.run.clear(); }},
      {"launch_id", [](ClientOptions& o) { o.launch_id.clear(); }},
      {"rank", [](ClientOptions& o) { o.rank = 1; }},
      {"queue_bytes_max", [](ClientOptions& o) { o.queue_bytes_max = 0; }},
      {"queue_reports_max", [](ClientOptions& o) { o.queue_reports_max = 0; }},
      {"message_bytes_max", [](ClientOptions& o) { o.message_bytes_max = 0; }},
      {"backoff_min", [](ClientOptions& o) { o.backoff_min = absl::Hours(1); }},
      {"hello_timeout", [](ClientOptions& o) { o.hello_timeout = absl::ZeroDuration(); }},
      {"keepalive_interval", [](ClientOptions& o) { o.keepalive_interval = absl::Seconds(1); }},
  };
  for (const Case& c : kCases) {
    ClientOptions options = kGood;
    c.spoil(options);
    EXPECT_THAT(Client::Create(options),
                support::StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr(absl::StrCat("option ", c.option, " is"))));
  }
}

}  // namespace
}  // namespace foreshock::client_internal
