#include "daemon/rpc/admin_service.h"

#include <memory>
#include <string>

#include "daemon/rpc/server.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wire_messages.h"

namespace foreshock::rpc {
namespace {

class AdminServiceTest : public ::testing::Test {
 protected:
  AdminServiceTest() {
    server_.Add(v1::AdminService::service_full_name(), &service_);
    absl::StatusOr<std::string> bound = server_.Start();
    EXPECT_OK(bound.status());
    stub_ =
        v1::AdminService::NewStub(grpc::CreateChannel(*bound, grpc::InsecureChannelCredentials()));
  }

  static AdminActions Actions(AdminServiceTest* test) {
    return {
        .reload = [test]() -> absl::StatusOr<uint32_t> {
          if (!test->reload_.ok()) return test->reload_;
          return 7;
        },
        .declare_event = [test](const std::string& run,
                                const v1::Event& event) -> absl::StatusOr<uint32_t> {
          test->called_ = run + " " + event.name();
          return 3;
        },
        .pin_run = [test](const std::string& run, bool pinned) -> absl::Status {
          test->called_ = run + (pinned ? " pinned" : " free");
          return absl::OkStatus();
        },
        .delete_run = [test](const std::string& run) -> absl::StatusOr<uint64_t> {
          test->called_ = run;
          return absl::NotFoundError("no run '" + run + "'");
        },
        .acknowledge =
            [](const v1::AcknowledgeAlertRequest& request) {
              v1::Alert alert;
              alert.set_id(request.id());
              alert.mutable_acknowledgement()->set_by(request.by());
              return alert;
            },
        .accept =
            [](const v1::AcceptAlertRequest& request) -> absl::StatusOr<v1::AcceptAlertResponse> {
          if (request.id() != "a1") return absl::FailedPreconditionError("is over");
          v1::AcceptAlertResponse response;
          response.mutable_event()->set_detail("by " + request.by());
          return response;
        },
        .silence = [](const v1::SilenceAlertsRequest& request) -> absl::StatusOr<v1::Silence> {
          if (request.matchers().empty()) return absl::InvalidArgumentError("no matchers");
          v1::Silence silence;
          *silence.mutable_matchers() = request.matchers();
          return silence;
        },
        .expire_silence = [](const std::string& id) -> absl::StatusOr<v1::Silence> {
          return absl::NotFoundError("no silence '" + id + "'");
        },
        .store_usage = []() -> absl::StatusOr<store::StoreUsage> {
          store::StoreUsage usage;
          usage.disk_bytes = 5;
          return usage;
        },
        .verify_store =
            [](const store::VerifyCallbacks& callbacks) -> absl::StatusOr<store::VerifyResult> {
          callbacks.finding({"chunks", "", "run r", "is wrong"});
          while (callbacks.progress({"chunks", 1, 2})) {
            if (callbacks.progress({"chunks", 2, 2})) break;
          }
          return store::VerifyResult{.rows = 2, .findings = 1};
        },
        .backup_store = [test](const std::string& name)
            -> absl::StatusOr<std::pair<std::string, store::BackupInfo>> {
          test->called_ = name;
          return std::pair("/backups/" + name, store::BackupInfo{.id = 3});
        }};
  }

  absl::Status reload_;
  std::string called_;
  AdminService service_{Actions(this)};
  GrpcServer server_{{}};  // after the service: it ends first
  std::unique_ptr<v1::AdminService::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(AdminServiceTest, ReloadTellsTheRulesLoaded) {
  v1::ReloadResponse response;
  ASSERT_TRUE(stub_->Reload(&context_, v1::ReloadRequest(), &response).ok());
  EXPECT_EQ(response.rules_loaded(), 7u);
}

TEST_F(AdminServiceTest, AFailedReloadSaysWhy) {
  reload_ = absl::InvalidArgumentError("rules/default.yaml:3:5: unknown key 'alrt'");
  v1::ReloadResponse response;
  const grpc::Status status = stub_->Reload(&context_, v1::ReloadRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "rules/default.yaml:3:5: unknown key 'alrt'");
}

TEST_F(AdminServiceTest, DeclaresAnEvent) {
  v1::DeclareEventRequest request;
  request.set_run("r");
  *request.mutable_event() = support::GoodEvent().event();
  v1::DeclareEventResponse response;
  ASSERT_TRUE(stub_->DeclareEvent(&context_, request, &response).ok());
  EXPECT_EQ(response.attempt(), 3u);
  EXPECT_EQ(called_, "r step-50");
}

TEST_F(AdminServiceTest, ABadEventReachesNobody) {
  v1::DeclareEventRequest request;
  request.set_run("r");
  *request.mutable_event() = support::GoodEvent().event();
  request.mutable_event()->set_step(-1);
  v1::DeclareEventResponse response;
  const grpc::Status status = stub_->DeclareEvent(&context_, request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "event.step: found -1; allowed 0..2^53");
  EXPECT_EQ(called_, "");
}

TEST_F(AdminServiceTest, PinsARun) {
  v1::PinRunRequest request;
  request.set_run("r");
  request.set_pinned(true);
  v1::PinRunResponse response;
  ASSERT_TRUE(stub_->PinRun(&context_, request, &response).ok());
  EXPECT_EQ(called_, "r pinned");
}

TEST_F(AdminServiceTest, AnActionsErrorIsTheAnswer) {
  v1::DeleteRunRequest request;
  request.set_run("gone");
  v1::DeleteRunResponse response;
  const grpc::Status status = stub_->DeleteRun(&context_, request, &response);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no run 'gone'");
}

TEST_F(AdminServiceTest, ARunMustBeNamed) {
  v1::DeleteRunResponse response;
  const grpc::Status status = stub_->DeleteRun(&context_, v1::DeleteRunRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "run: found 0 bytes; allowed 1..256 bytes");
  EXPECT_EQ(called_, "");
}

TEST_F(AdminServiceTest, AcceptsALevel) {
  v1::AcceptAlertRequest request;
  request.set_id("a1");
  request.set_by("ada");
  v1::AcceptAlertResponse response;
  ASSERT_TRUE(stub_->AcceptAlert(&context_, request, &response).ok());
  EXPECT_EQ(response.event().detail(), "by ada");
  request.set_id("a2");
  grpc::ClientContext second;
  EXPECT_EQ(stub_->AcceptAlert(&second, request, &response).error_code(),
            grpc::FAILED_PRECONDITION);
}

TEST_F(AdminServiceTest, AcknowledgesAndSilences) {
  v1::AcknowledgeAlertRequest acknowledge;
  acknowledge.set_id("a1");
  acknowledge.set_by("ada");
  v1::AcknowledgeAlertResponse acknowledged;
  ASSERT_TRUE(stub_->AcknowledgeAlert(&context_, acknowledge, &acknowledged).ok());
  EXPECT_EQ(acknowledged.alert().id(), "a1");
  EXPECT_EQ(acknowledged.alert().acknowledgement().by(), "ada");

  grpc::ClientContext second;
  v1::SilenceAlertsResponse silenced;
  EXPECT_EQ(stub_->SilenceAlerts(&second, v1::SilenceAlertsRequest(), &silenced).error_code(),
            grpc::INVALID_ARGUMENT);
  grpc::ClientContext third;
  v1::SilenceAlertsRequest silence;
  silence.add_matchers("run=x");
  ASSERT_TRUE(stub_->SilenceAlerts(&third, silence, &silenced).ok());
  EXPECT_EQ(silenced.silence().matchers(0), "run=x");

  grpc::ClientContext fourth;
  v1::ExpireSilenceRequest expire;
  expire.set_id("s1");
  v1::ExpireSilenceResponse expired;
  const grpc::Status status = stub_->ExpireSilence(&fourth, expire, &expired);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no silence 's1'");
}

TEST_F(AdminServiceTest, AnswersStoreStats) {
  v1::GetStoreStatsResponse response;
  ASSERT_TRUE(stub_->GetStoreStats(&context_, {}, &response).ok());
  EXPECT_EQ(response.disk_bytes(), 5u);
}

TEST_F(AdminServiceTest, StreamsACheckOfTheStore) {
  const auto reader = stub_->VerifyStore(&context_, {});
  v1::VerifyStoreResponse event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.finding().where(), "run r");
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.progress().done(), 1u);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.progress().done(), 2u);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.result().findings(), 1u);
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(AdminServiceTest, ABackupHasAPlainName) {
  for (const std::string name : {"", ".", "..", "../x", "a/b", "/x", ".hidden", "a b"}) {
    grpc::ClientContext context;
    v1::BackupStoreRequest request;
    request.set_name(name);
    v1::BackupStoreResponse response;
    EXPECT_EQ(stub_->BackupStore(&context, request, &response).error_code(), grpc::INVALID_ARGUMENT)
        << name;
    EXPECT_EQ(called_, "");
  }
  v1::BackupStoreRequest request;
  request.set_name("nightly-1.a_b");
  v1::BackupStoreResponse response;
  ASSERT_TRUE(stub_->BackupStore(&context_, request, &response).ok());
  EXPECT_EQ(response.directory(), "/backups/nightly-1.a_b");
  EXPECT_EQ(response.id(), 3u);
}

}  // namespace
}  // namespace foreshock::rpc
