#include "client/cpp/src/send_queue.h"

#include "client/cpp/src/stream.h"
#include "foreshock/v1/errors.pb.h"
#include "gmock/gmock.h"

namespace foreshock::client_internal {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> Seqs(const QueuedReports& reports) {
  std::vector<uint64_t> seqs;
  for (const auto& report : reports) seqs.push_back(report->seq);
  return seqs;
}

class SendQueueTest : public ::testing::Test {
 protected:
  SendQueueTest() {
    for (const uint64_t seq : {1, 2, 4, 5}) queue_.Push({}, seq, 10 * seq);
  }
  std::vector<uint64_t> SendAll() {
    std::vector<uint64_t> sent;
    while (queue_.HasUnsent()) sent.push_back(queue_.Next()->seq);
    return sent;
  }
  SendQueue queue_{{.bytes_max = 200, .reports_max = 5}};
};

TEST_F(SendQueueTest, RoomIsBoundedInBytesAndReports) {
  EXPECT_EQ(queue_.bytes(), 120u);
  EXPECT_TRUE(queue_.HasRoom(80));
  EXPECT_FALSE(queue_.HasRoom(81));
  queue_.Push({}, 6, 0);
  EXPECT_FALSE(queue_.HasRoom(0));
  EXPECT_THAT(Seqs(queue_.Acknowledge(1)), ElementsAre(1));
  EXPECT_TRUE(queue_.HasRoom(90));
  EXPECT_FALSE(queue_.HasRoom(91));
}

TEST_F(SendQueueTest, AcksTakeWhatTheyCoverSentOrNot) {
  EXPECT_EQ(queue_.Next()->seq, 1u);
  EXPECT_EQ(queue_.Next()->seq, 2u);
  EXPECT_THAT(Seqs(queue_.Acknowledge(0)), ElementsAre());
  EXPECT_THAT(Seqs(queue_.Acknowledge(4)), ElementsAre(1, 2, 4));
  EXPECT_THAT(SendAll(), ElementsAre(5));
  EXPECT_EQ(queue_.last_sent_seq(), 5u);
  EXPECT_THAT(Seqs(queue_.Acknowledge(3)), ElementsAre());
}

TEST_F(SendQueueTest, ANewStreamSendsAgainWhatIsLeft) {
  EXPECT_THAT(SendAll(), ElementsAre(1, 2, 4, 5));
  queue_.Acknowledge(2);
  queue_.Rewind();
  const auto first = queue_.Next();
  EXPECT_EQ(first->seq, 4u);
  EXPECT_EQ(first->written, 2u);
  EXPECT_THAT(SendAll(), ElementsAre(5));
}

TEST_F(SendQueueTest, RequeuedReportsGoToTheEndAndAreUnsent) {
  EXPECT_THAT(SendAll(), ElementsAre(1, 2, 4, 5));
  EXPECT_TRUE(queue_.Requeue(2, 9));
  EXPECT_FALSE(queue_.Requeue(3, 10));
  EXPECT_EQ(queue_.bytes(), 120u);
  EXPECT_THAT(SendAll(), ElementsAre(9));
  EXPECT_THAT(Seqs(queue_.Acknowledge(9)), ElementsAre(1, 4, 5, 9));
  EXPECT_EQ(queue_.bytes(), 0u);
}

TEST_F(SendQueueTest, OnlySentReportsAreBlamedForALostStream) {
  EXPECT_EQ(queue_.RemoveLargestSent(), nullptr);
  queue_.Next();
  queue_.Next();
  EXPECT_EQ(queue_.RemoveLargestSent()->seq, 2u);
  EXPECT_THAT(SendAll(), ElementsAre(4, 5));
  EXPECT_EQ(queue_.bytes(), 100u);
}

TEST_F(SendQueueTest, LargeReportsCanBeTakenOut) {
  queue_.Next();
  EXPECT_THAT(Seqs(queue_.RemoveLargerThan(19)), ElementsAre(2, 4, 5));
  EXPECT_FALSE(queue_.HasUnsent());
  EXPECT_THAT(Seqs(queue_.Clear()), ElementsAre(1));
  EXPECT_EQ(queue_.size(), 0u);
  EXPECT_EQ(queue_.bytes(), 0u);
}

TEST(RetryDelayTest, IsReadFromTheDetailsAndNothingElse) {
  v1::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  v1::ErrorStatus details;
  details.add_details()->set_type_url("type.googleapis.com/google.rpc.DebugInfo");
  EXPECT_EQ(RetryDelay(grpc::Status(grpc::RESOURCE_EXHAUSTED, "", details.SerializeAsString())),
            std::nullopt);
  google::protobuf::Any* any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(retry.SerializeAsString());
  EXPECT_EQ(RetryDelay(grpc::Status(grpc::RESOURCE_EXHAUSTED, "", details.SerializeAsString())),
            absl::Milliseconds(2500));
  EXPECT_EQ(RetryDelay(grpc::Status(grpc::RESOURCE_EXHAUSTED, "", "rubbish")), std::nullopt);
  EXPECT_EQ(RetryDelay(grpc::Status::OK), std::nullopt);
}

}  // namespace
}  // namespace foreshock::client_internal
