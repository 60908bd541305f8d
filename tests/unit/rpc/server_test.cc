#include "daemon/rpc/server.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "foreshock/v1/ingest.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::rpc {
namespace {

using ::foreshock::support::CheckHealth;
using ::foreshock::support::Health;
using ::foreshock::support::ReflectedServices;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

TEST(GrpcServerTest, PortZeroIsBoundAndToldFor) {
  v1::IngestService::Service service;
  GrpcServer server({.address = "127.0.0.1:0"});
  server.Add(v1::IngestService::service_full_name(), &service);
  ASSERT_OK_AND_ASSIGN(const std::string bound, server.Start());
  EXPECT_THAT(bound, MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  grpc::ClientContext context;
  v1::PushOnceResponse response;
  const grpc::Status status = v1::IngestService::NewStub(Connect(bound))
                                  ->PushOnce(&context, v1::PushOnceRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);  // the base class answered
}

TEST(GrpcServerTest, HealthKnowsTheServerEachServiceAndNothingElse) {
  v1::IngestService::Service service;
  GrpcServer server({});
  server.Add(v1::IngestService::service_full_name(), &service);
  ASSERT_OK_AND_ASSIGN(const std::string bound, server.Start());
  const auto channel = Connect(bound);
  EXPECT_EQ(CheckHealth(channel, ""), Health::kServing);
  EXPECT_EQ(CheckHealth(channel, "foreshock.v1.IngestService"), Health::kServing);
  EXPECT_EQ(CheckHealth(channel, "foreshock.v1.QueryService"), Health::kNotFound);
  server.SetNotServing();
  EXPECT_EQ(CheckHealth(channel, ""), Health::kNotServing);
  EXPECT_EQ(CheckHealth(channel, "foreshock.v1.IngestService"), Health::kNotServing);
}

TEST(GrpcServerTest, ReflectionListsTheServices) {
  v1::IngestService::Service service;
  GrpcServer server({});
  server.Add(v1::IngestService::service_full_name(), &service);
  ASSERT_OK_AND_ASSIGN(const std::string bound, server.Start());
  EXPECT_THAT(ReflectedServices(Connect(bound)),
              AllOf(HasSubstr("foreshock.v1.IngestService"), HasSubstr("grpc.health.v1.Health"),
                    HasSubstr("grpc.reflection.v1alpha.ServerReflection")));
}

TEST(GrpcServerTest, ATakenPortIsNamedWithTheReason) {
  GrpcServer first({});
  ASSERT_OK_AND_ASSIGN(const std::string bound, first.Start());
  GrpcServer second({.address = bound});
  EXPECT_THAT(second.Start().status(),
              support::StatusIs(
                  absl::StatusCode::kUnavailable,
                  "cannot listen on " + bound +
                      ": Address already in use (another process, perhaps another foreshockd, "
                      "listens there)"));
}

TEST(GrpcServerTest, AddressesThatCannotBeRead) {
  for (const std::string address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", ":80",
                                    "127.0.0.1:65536", "127.0.0.1:-1", "unix:"}) {
    GrpcServer server({.address = address});
    EXPECT_THAT(
        server.Start().status(),
        support::StatusIs(absl::StatusCode::kInvalidArgument,
                          "cannot listen on '" + address +
                              "': an address is host:port, [v6]:port or unix:/path, with port "
                              "0..65535"))
        << address;
  }
}

TEST(GrpcServerTest, AForeignAddressIsRefusedWithTheReason) {
  GrpcServer server({.address = "192.0.2.1:0"});  // a documentation network, never ours
  EXPECT_THAT(server.Start().status(),
              support::StatusIs(absl::StatusCode::kUnavailable,
                                "cannot listen on 192.0.2.1:0: Cannot assign requested address"));
}

TEST(GrpcServerTest, ListensOnAUnixSocket) {
  support::TempDir dir;
  const std::string address = "unix:" + dir.File("grpc.sock");
  GrpcServer server({.address = address});
  ASSERT_OK_AND_ASSIGN(const std::string bound, server.Start());
  EXPECT_EQ(bound, address);
  EXPECT_EQ(CheckHealth(Connect(bound), ""), Health::kServing);
}

// Holds its call until it is cancelled.
class HoldingService final : public v1::IngestService::Service {
 public:
  grpc::Status PushOnce(grpc::ServerContext* context, const v1::PushOnceRequest* request,
                        v1::PushOnceResponse* response) override {
    entered = true;
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  }
  std::atomic<bool> entered{false};
};

TEST(GrpcServerTest, CallsStillOpenAfterTheGraceAreCancelledAndSaid) {
  HoldingService service;
  GrpcServer server({});
  server.Add(v1::IngestService::service_full_name(), &service);
  ASSERT_OK_AND_ASSIGN(const std::string bound, server.Start());
  grpc::Status answer;
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::PushOnceResponse response;
    answer = v1::IngestService::NewStub(Connect(bound))
                 ->PushOnce(&context, v1::PushOnceRequest(), &response);
  });
  while (!service.entered) std::this_thread::yield();
  EXPECT_THAT(
      server.Shutdown(absl::Milliseconds(50)),
      support::StatusIs(absl::StatusCode::kDeadlineExceeded,
                        MatchesRegex("calls or connections on " + bound +
                                     " were still open after [0-9.]+m?s and have been cut off")));
  caller.join();
  EXPECT_FALSE(answer.ok());
  EXPECT_OK(server.Shutdown(absl::Seconds(1)));  // again: nothing left to do
}

TEST(GrpcServerTest, ShutdownOfAnIdleServerIsInTime) {
  GrpcServer server({});
  ASSERT_OK(server.Start().status());
  EXPECT_OK(server.Shutdown(absl::Seconds(10)));
}

}  // namespace
}  // namespace foreshock::rpc
