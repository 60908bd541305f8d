// A replay against a server on a real socket that remembers what came in, and in which order.
#include "client/cli/replayer.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/connection.h"
#include "client/cli/declarations.h"
#include "daemon/base/mutex.h"
#include "tests/support/status_matchers.h"

namespace foreshock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Acknowledges every report at once; `committed` of a client_instance is what HelloAck tells.
class Recorder final : public v1::IngestService::Service {
 public:
  Recorder() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    settings_.server = absl::StrCat("127.0.0.1:", port);
  }
  ~Recorder() override { server_->Shutdown(); }

  grpc::Status Push(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::PushResponse, v1::PushRequest>* call) override {
    v1::PushRequest request;
    std::string instance;
    while (call->Read(&request)) {
      v1::PushResponse response;
      {
        base::MutexLock lock(&mutex_);
        if (request.has_hello()) {
          instance = request.hello().client_instance();
          Note(absl::StrCat("hello ", instance, " of ", request.hello().run()));
          response.mutable_hello_ack()->set_attempt(1);
          response.mutable_hello_ack()->set_last_committed_seq(committed_[instance]);
        } else if (request.has_goodbye()) {
          Note(absl::StrCat("goodbye ", instance));
          continue;
        } else {
          const v1::Report& report = request.report();
          Note(absl::StrCat(instance, " ", report.seq()));
          reports_.push_back(report);
          if (report.seq() == fail_at_seq_) {
            return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "step went mad");
          }
          committed_[instance] = report.seq();
          response.mutable_ack()->set_seq(report.seq());
          if (report.seq() == reject_seq_) {
            v1::Rejection* rejection = response.mutable_ack()->add_rejections();
            rejection->set_seq(report.seq());
            rejection->set_summary_index(0);
            rejection->set_reason("wrong shape");
          }
        }
      }
      call->Write(response);
    }
    base::MutexLock lock(&mutex_);
    Note(absl::StrCat("end ", instance));
    return grpc::Status::OK;
  }

  const Settings& settings() const { return settings_; }
  std::vector<std::string> log() {
    base::MutexLock lock(&mutex_);
    return log_;
  }
  std::vector<v1::Report> reports() {
    base::MutexLock lock(&mutex_);
    return reports_;
  }
  void Commit(const std::string& instance, uint64_t seq) {
    base::MutexLock lock(&mutex_);
    committed_[instance] = seq;
  }
  void RejectAt(uint64_t seq) { reject_seq_ = seq; }
  void FailAt(uint64_t seq) { fail_at_seq_ = seq; }

 private:
  void Note(std::string what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    log_.push_back(std::move(what));
  }

  Settings settings_;
  std::unique_ptr<grpc::Server> server_;
  uint64_t reject_seq_ = 0;
  uint64_t fail_at_seq_ = 0;
  base::Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Report> reports_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> committed_ ABSL_GUARDED_BY(mutex_);
};

v1::CaptureRecord Hello(uint32_t stream, const std::string& launch, const std::string& instance) {
  v1::CaptureRecord record;
  record.set_stream(stream);
  v1::Hello* hello = record.mutable_message()->mutable_hello();
  hello->set_run("recorded");
  hello->set_launch_id(launch);
  hello->set_client_instance(instance);
  hello->set_rank(stream);
  hello->set_world_size(2);
  return record;
}

v1::CaptureRecord Report(uint32_t stream, uint64_t seq, int64_t time_unix_ns = 0) {
  v1::CaptureRecord record;
  record.set_stream(stream);
  v1::Report* report = record.mutable_message()->mutable_report();
  report->set_seq(seq);
  report->set_step(static_cast<int64_t>(seq) - 1);
  report->set_time_unix_ns(time_unix_ns);
  return record;
}

v1::CaptureRecord Goodbye(uint32_t stream) {
  v1::CaptureRecord record;
  record.set_stream(stream);
  record.mutable_message()->mutable_goodbye()->set_outcome(v1::OUTCOME_FINISHED);
  return record;
}

TEST(ReplayerTest, EachRankHasItsStreamAndEveryReportIsAcknowledged) {
  Recorder daemon;
  Connection connection(daemon.settings());
  Replayer replayer(connection.ingest(), {});
  ASSERT_OK(replayer.Send(Hello(0, "launch", "a")));
  ASSERT_OK(replayer.Send(Hello(1, "launch", "b")));
  for (uint64_t seq = 1; seq <= 100; ++seq) {
    ASSERT_OK(replayer.Send(Report(0, seq)));
    ASSERT_OK(replayer.Send(Report(1, seq)));
  }
  ASSERT_OK(replayer.Send(Goodbye(0)));
  ASSERT_OK(replayer.Finish());
  EXPECT_EQ(replayer.totals().streams, 2u);
  EXPECT_EQ(replayer.totals().reports, 200u);
  EXPECT_EQ(replayer.totals().last_step, 99);
  EXPECT_EQ(replayer.totals().run, "recorded");
  EXPECT_THAT(daemon.reports(), SizeIs(200));
}

TEST(ReplayerTest, RunCanBeRenamed) {
  Recorder daemon;
  Connection connection(daemon.settings());
  ReplayOptions options;
  options.run = "other";
  Replayer replayer(connection.ingest(), options);
  ASSERT_OK(replayer.Send(Hello(0, "launch", "a")));
  ASSERT_OK(replayer.Finish());
  EXPECT_THAT(daemon.log(), ElementsAre("hello a of other", "end a"));
}

// Else the new attempt would begin while the old one is still being pushed.
TEST(ReplayerTest, NextLaunchBeginsWhenTheLastOneIsAcknowledgedAndClosed) {
  Recorder daemon;
  Connection connection(daemon.settings());
  Replayer replayer(connection.ingest(), {});
  ASSERT_OK(replayer.Send(Hello(0, "first", "a")));
  ASSERT_OK(replayer.Send(Report(0, 1)));
  ASSERT_OK(replayer.Send(Report(0, 2)));
  ASSERT_OK(replayer.Send(Hello(1, "second", "b")));
  ASSERT_OK(replayer.Send(Report(1, 1)));
  ASSERT_OK(replayer.Finish());
  EXPECT_THAT(daemon.log(), ElementsAre("hello a of recorded", "a 1", "a 2", "end a",
                                        "hello b of recorded", "b 1", "end b"));
}

TEST(ReplayerTest, CommittedReportsAreSkippedButTheirNamesAreDeclaredAgain) {
  Recorder daemon;
  daemon.Commit("a", 2);
  Connection connection(daemon.settings());
  Replayer replayer(connection.ingest(), {});
  ASSERT_OK(replayer.Send(Hello(0, "launch", "a")));
  v1::CaptureRecord first = Report(0, 1);
  v1::ScalarBatch* batch =
      first.mutable_message()->mutable_report()->add_summaries()->mutable_scalars();
  v1::ScalarDeclaration* loss = batch->add_declare();
  loss->set_id(7);
  loss->set_name("loss");
  ASSERT_OK(replayer.Send(first));
  ASSERT_OK(replayer.Send(Report(0, 2)));
  ASSERT_OK(replayer.Send(Report(0, 3)));
  ASSERT_OK(replayer.Send(Report(0, 4)));
  ASSERT_OK(replayer.Finish());
  EXPECT_EQ(replayer.totals().skipped, 2u);
  EXPECT_EQ(replayer.totals().reports, 2u);
  const auto reports = daemon.reports();
  ASSERT_THAT(reports, SizeIs(2));
  EXPECT_EQ(reports[0].seq(), 3u);
  ASSERT_THAT(reports[0].summaries(), SizeIs(1));
  EXPECT_EQ(reports[0].summaries(0).scalars().declare(0).name(), "loss");
  EXPECT_THAT(reports[1].summaries(), IsEmpty());
}

TEST(ReplayerTest, RejectionsAreCountedWithTheirReasons) {
  Recorder daemon;
  daemon.RejectAt(2);
  Connection connection(daemon.settings());
  Replayer replayer(connection.ingest(), {});
  ASSERT_OK(replayer.Send(Hello(3, "launch", "a")));
  for (uint64_t seq = 1; seq <= 3; ++seq) ASSERT_OK(replayer.Send(Report(3, seq)));
  ASSERT_OK(replayer.Finish());
  EXPECT_EQ(replayer.totals().rejected, 1u);
  EXPECT_THAT(replayer.totals().reasons, ElementsAre("rank 3, report 2, summary 0: wrong shape"));
}

TEST(ReplayerTest, StreamThatFailsEndsTheReplayWithTheDaemonsReason) {
  Recorder daemon;
  daemon.FailAt(2);
  Connection connection(daemon.settings());
  ReplayOptions options;
  options.unacked_reports_max = 1;
  Replayer replayer(connection.ingest(), options);
  ASSERT_OK(replayer.Send(Hello(4, "launch", "a")));
  absl::Status status;
  for (uint64_t seq = 1; seq <= 10 && status.ok(); ++seq) status = replayer.Send(Report(4, seq));
  status.Update(replayer.Finish());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 4: step went mad"));
}

TEST(ReplayerTest, UnreachableDaemonIsUnavailable) {
  Settings settings;
  settings.server = "127.0.0.1:1";
  Connection connection(settings);
  Replayer replayer(connection.ingest(), {});
  const absl::Status status = replayer.Send(Hello(0, "launch", "a"));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(ExitCodeFor(status), kUnreachable);
}

TEST(ReplayerTest, PacedReplayTakesTheRecordedTimeOverTheFactor) {
  Recorder daemon;
  Connection connection(daemon.settings());
  ReplayOptions options;
  options.speed = 10;
  Replayer replayer(connection.ingest(), options);
  ASSERT_OK(replayer.Send(Hello(0, "launch", "a")));
  constexpr int64_t kStart = 1'700'000'000'000'000'000;
  const absl::Time begin = absl::Now();
  ASSERT_OK(replayer.Send(Report(0, 1, kStart)));
  ASSERT_OK(replayer.Send(Report(0, 2, kStart + 2'000'000'000)));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(200));
  ASSERT_OK(replayer.Finish());
}

TEST(DeclarationsTest, IdsTheReportDeclaresItselfWin) {
  Declarations names;
  v1::Report earlier;
  auto* tensors = earlier.add_summaries()->mutable_tensor_stats();
  for (const uint32_t id : {1u, 2u}) {
    auto* name = tensors->add_declare();
    name->set_id(id);
    name->set_name(absl::StrCat("act/old", id));
  }
  names.Note(earlier);
  v1::Report report;
  auto* own = report.add_summaries()->mutable_tensor_stats()->add_declare();
  own->set_id(1);
  own->set_name("act/new");
  names.MoveInto(&report);
  ASSERT_THAT(report.summaries(), SizeIs(1));
  const auto& declared = report.summaries(0).tensor_stats().declare();
  ASSERT_THAT(declared, SizeIs(2));
  EXPECT_EQ(declared[0].name(), "act/new");
  EXPECT_EQ(declared[1].name(), "act/old2");
  v1::Report next;
  names.MoveInto(&next);
  EXPECT_THAT(next.summaries(), IsEmpty());
}

}  // namespace
}  // namespace foreshock::cli
