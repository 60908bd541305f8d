// An IngestService with a FakeSink behind a real socket, and a sender.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ingest/service.h"
#include "daemon/rpc/server.h"
#include "foreshock/v1/errors.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/fake_sink.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wire_messages.h"

namespace foreshock::integration {

// One Push stream from the sender's side, with a deadline so that no test hangs.
class Sender {
 public:
  explicit Sender(v1::IngestService::Stub* stub) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub->Push(&context_);
  }

  void Send(const v1::Hello& hello) {
    v1::PushRequest request;
    *request.mutable_hello() = hello;
    stream_->Write(request);
  }
  void Send(const v1::Report& report) {
    v1::PushRequest request;
    *request.mutable_report() = report;
    stream_->Write(request);
  }
  void Send(const v1::Goodbye& goodbye) {
    v1::PushRequest request;
    *request.mutable_goodbye() = goodbye;
    stream_->Write(request);
  }
  void SendNothing() { stream_->Write(v1::PushRequest()); }
  void CloseInput() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

  // Sends the Hello and expects to be let in.
  v1::HelloAck Enter(const v1::Hello& hello = support::GoodHello()) {
    Send(hello);
    v1::PushResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    EXPECT_TRUE(response.has_hello_ack());
    return response.hello_ack();
  }

  // The merged acks up to `seq`.
  v1::Ack AwaitAck(uint64_t seq) {
    v1::Ack all;
    v1::PushResponse response;
    while (all.seq() < seq && stream_->Read(&response)) {
      EXPECT_TRUE(response.has_ack());
      EXPECT_GE(response.ack().seq(), all.seq());  // cumulative: never goes back
      all.set_seq(response.ack().seq());
      all.set_duplicates(all.duplicates() + response.ack().duplicates());
      all.mutable_rejections()->MergeFrom(response.ack().rejections());
    }
    EXPECT_GE(all.seq(), seq);
    return all;
  }

  // Reads what is left, then the status.
  grpc::Status End() {
    v1::PushResponse response;
    while (stream_->Read(&response)) {
      if (response.has_ack()) last_seq_ = response.ack().seq();
    }
    return stream_->Finish();
  }
  uint64_t last_seq() const { return last_seq_; }  // of the acks that End has read

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream_;
  uint64_t last_seq_ = 0;
};

class IngestFixture : public ::testing::Test {
 protected:
  void Start(ingest::IngestService::Options options = {}) {
    service_ = std::make_unique<ingest::IngestService>(
        options, ingest::IngestService::Deps{.sink = &sink_, .stats = &stats_});
    server_ = std::make_unique<rpc::GrpcServer>(
        rpc::GrpcServer::Options{.message_bytes_max = options.limits.message_bytes_max});
    server_->Add(v1::IngestService::service_full_name(), service_.get());
    absl::StatusOr<std::string> bound = server_->Start();
    ASSERT_OK(bound.status());
    channel_ = grpc::CreateChannel(*bound, grpc::InsecureChannelCredentials());
    stub_ = v1::IngestService::NewStub(channel_);
  }

  static v1::Hello HelloOf(uint32_t rank) {
    v1::Hello hello = support::GoodHello();
    hello.set_world_size(64);
    hello.set_rank(rank);
    hello.set_client_instance("instance-" + std::to_string(rank));
    return hello;
  }

  uint64_t Refused(ingest::Refusal reason) const {
    return stats_.Snapshot().refused[static_cast<size_t>(reason)];
  }

  // Of google.rpc.RetryInfo in the status; -1: none.
  static double RetrySeconds(const grpc::Status& status) {
    v1::ErrorStatus details;
    if (!details.ParseFromString(status.error_details()) || details.details_size() != 1) return -1;
    EXPECT_EQ(details.code(), status.error_code());
    EXPECT_EQ(details.message(), status.error_message());
    EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
    v1::RetryInfo retry;
    if (!retry.ParseFromString(details.details(0).value())) return -1;
    return static_cast<double>(retry.retry_delay().seconds()) + 1e-9 * retry.retry_delay().nanos();
  }

  support::FakeSink sink_;
  ingest::IngestStats stats_;
  std::unique_ptr<ingest::IngestService> service_;
  std::unique_ptr<rpc::GrpcServer> server_;  // after the service: it ends first
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IngestService::Stub> stub_;
};

}  // namespace foreshock::integration
