// The committed files of tests/golden/wire: what v1 senders and daemons put on the wire. A
// renumbered, retyped or removed field fails here. A new field needs a new file;
// FORESHOCK_UPDATE_GOLDEN=1 writes the ones that are not there, never the ones that are.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "foreshock/v1/errors.pb.h"
#include "foreshock/v1/ingest.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/wire_messages.h"

namespace foreshock::golden {
namespace {

using namespace ::foreshock::support;  // NOLINT: the small messages

void ExpectGolden(const std::string& name, const google::protobuf::Message& message) {
  const std::string path = FORESHOCK_SOURCE_DIR "/tests/golden/wire/" + name + ".v1.bin";
  const std::string bytes = message.SerializeAsString();
  if (std::getenv("FORESHOCK_UPDATE_GOLDEN") != nullptr && !std::filesystem::exists(path)) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.is_open()) << path;
  std::ostringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(golden.str(), bytes) << name << ": these bytes are out in the world";
}

TEST(WireGoldenTest, Hello) {
  v1::PushRequest request;
  *request.mutable_hello() = GoodHello();
  request.mutable_hello()->set_parent_attempt(2);
  request.mutable_hello()->set_resume_step(1200);
  request.mutable_hello()->set_client_version("foreshock-cpp/0.1.0");
  ExpectGolden("hello", request);
}

TEST(WireGoldenTest, AReportOfEachKind) {
  for (const v1::Summary& summary : GoodSummaries()) {
    v1::PushRequest request;
    *request.mutable_report() = EmptyReport(7);
    *request.mutable_report()->add_summaries() = summary;
    const auto* descriptor = v1::Summary::descriptor()->FindFieldByNumber(summary.payload_case());
    ASSERT_NE(descriptor, nullptr);
    ExpectGolden("report_" + descriptor->name(), request);
  }
}

TEST(WireGoldenTest, Goodbye) {
  v1::PushRequest request;
  *request.mutable_goodbye() = GoodGoodbye();
  request.mutable_goodbye()->set_detail("done");
  ExpectGolden("goodbye", request);
}

TEST(WireGoldenTest, Answers) {
  v1::PushResponse response;
  v1::HelloAck* hello_ack = response.mutable_hello_ack();
  hello_ack->set_attempt(3);
  hello_ack->set_last_committed_seq(41);
  hello_ack->mutable_limits()->set_message_bytes_max(64u << 20);
  hello_ack->mutable_limits()->set_summaries_per_report_max(4096);
  hello_ack->mutable_limits()->set_scalars_per_stream_max(1024);
  hello_ack->mutable_limits()->set_tensors_per_stream_max(16384);
  hello_ack->set_server_version("0.1.0");
  *hello_ack->add_hints() = GoodHello().plan(0);
  ExpectGolden("hello_ack", response);

  v1::Ack* ack = response.mutable_ack();
  ack->set_seq(42);
  ack->set_duplicates(1);
  v1::Rejection* rejection = ack->add_rejections();
  rejection->set_seq(42);
  rejection->set_summary_index(0);
  rejection->set_code(3);
  rejection->set_reason("summaries[0]: found nothing; allowed something");
  rejection->mutable_retry_delay()->set_seconds(1);
  ExpectGolden("ack", response);
}

TEST(WireGoldenTest, ARefusalWithARetryDelay) {
  v1::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  v1::ErrorStatus status;
  status.set_code(8);
  status.set_message("the ingest queue is full");
  google::protobuf::Any* any = status.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(retry.SerializeAsString());
  ExpectGolden("retry", status);
}

}  // namespace
}  // namespace foreshock::golden
