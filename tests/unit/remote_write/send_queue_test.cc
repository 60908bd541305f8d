#include "daemon/remote_write/send_queue.h"

#include <deque>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::remote_write {
namespace {

using ::testing::ElementsAre;

const absl::Time kBegin = absl::FromUnixSeconds(1'800'000'000);

// Answers as it is told, then with 204.
class FakePoster final : public notify::HttpPoster {
 public:
  absl::StatusOr<notify::HttpAnswer> Do(const notify::HttpCall& call) override {
    bodies.emplace_back(call.body);
    if (answers.empty()) return notify::HttpAnswer{.status = 204};
    const absl::StatusOr<notify::HttpAnswer> answer = answers.front();
    answers.pop_front();
    return answer;
  }
  std::deque<absl::StatusOr<notify::HttpAnswer>> answers;
  std::vector<std::string> bodies;
};

class SendQueueTest : public ::testing::Test {
 protected:
  SendQueueTest() {
    auto poster = std::make_unique<FakePoster>();
    poster_ = poster.get();
    queue_ = std::make_unique<RemoteSendQueue>(
        RemoteSendQueue::Options{.name = "r", .url = "http://r", .bytes_max = 4}, std::move(poster),
        [] { return 1.0; });
  }
  void Add(const std::string& body, size_t samples = 10) {
    queue_->Add({{.body = body, .samples = samples}});
  }

  FakePoster* poster_;
  std::unique_ptr<RemoteSendQueue> queue_;
};

TEST_F(SendQueueTest, SendsInOrderAndHasNothingMoreToDo) {
  EXPECT_EQ(queue_->Turn(kBegin), absl::InfiniteFuture());
  Add("a");
  Add("b");
  EXPECT_EQ(queue_->Turn(kBegin), kBegin);
  EXPECT_EQ(queue_->Turn(kBegin), absl::InfiniteFuture());
  EXPECT_THAT(poster_->bodies, ElementsAre("a", "b"));
  EXPECT_EQ(queue_->stats().sent, 20u);
  EXPECT_EQ(queue_->stats().last_success, kBegin);
  EXPECT_EQ(queue_->stats().queue_bytes, 0u);
  EXPECT_EQ(queue_->stats().queue_samples, 0u);
}

TEST_F(SendQueueTest, WhatIsNotTakenNowWaitsLongerEachTimeAndComesFirst) {
  poster_->answers = {absl::UnavailableError("no answer"), notify::HttpAnswer{.status = 500},
                      notify::HttpAnswer{.status = 429, .retry_after = absl::Seconds(60)}};
  Add("a");
  EXPECT_EQ(queue_->Turn(kBegin), kBegin + absl::Seconds(1));
  Add("b");
  EXPECT_EQ(queue_->Turn(kBegin + absl::Milliseconds(999)), kBegin + absl::Seconds(1));
  const absl::Time second = kBegin + absl::Seconds(1);
  EXPECT_EQ(queue_->Turn(second), second + absl::Seconds(2));
  const absl::Time third = second + absl::Seconds(2);
  EXPECT_EQ(queue_->Turn(third), third + absl::Seconds(60));
  const absl::Time fourth = third + absl::Seconds(60);
  EXPECT_EQ(queue_->Turn(fourth), fourth);
  EXPECT_EQ(queue_->Turn(fourth), absl::InfiniteFuture());
  EXPECT_THAT(poster_->bodies, ElementsAre("a", "a", "a", "a", "b"));
  EXPECT_EQ(queue_->stats().retries, 3u);
  EXPECT_EQ(queue_->stats().sent, 20u);
}

TEST_F(SendQueueTest, NeverWaitsVeryLongByItself) {
  absl::Time now = kBegin;
  Add("a");
  for (int i = 0; i < 20; ++i) poster_->answers.push_back(notify::HttpAnswer{.status = 503});
  for (int i = 0; i < 20; ++i) {
    const absl::Time next = queue_->Turn(now);
    EXPECT_LE(next - now, absl::Seconds(30));
    now = next;
  }
}

TEST_F(SendQueueTest, WhatIsRefusedForGoodIsDroppedAndTheNextIsSent) {
  poster_->answers = {notify::HttpAnswer{.status = 400, .body = "out of order sample"}};
  Add("a", 7);
  Add("b", 5);
  EXPECT_EQ(queue_->Turn(kBegin), kBegin);
  EXPECT_EQ(queue_->Turn(kBegin), absl::InfiniteFuture());
  EXPECT_EQ(queue_->stats().refused, 7u);
  EXPECT_EQ(queue_->stats().sent, 5u);
}

TEST_F(SendQueueTest, WithoutRoomTheOldestThatWaitGo) {
  poster_->answers = {notify::HttpAnswer{.status = 503}};
  Add("aa");
  (void)queue_->Turn(kBegin);  // "aa" is on its way, and stays
  for (const char* body : {"b", "c", "d", "e"}) Add(body);
  EXPECT_EQ(queue_->stats().dropped, 20u);
  EXPECT_EQ(queue_->stats().queue_bytes, 4u);
  absl::Time now = kBegin + absl::Minutes(1);
  while (queue_->Turn(now) <= now) {
  }
  EXPECT_THAT(poster_->bodies, ElementsAre("aa", "aa", "d", "e"));
  EXPECT_EQ(queue_->stats().queue_samples, 0u);
}

}  // namespace
}  // namespace foreshock::remote_write
