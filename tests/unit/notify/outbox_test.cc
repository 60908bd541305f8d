#include "daemon/notify/outbox.h"

#include "absl/strings/str_cat.h"
#include "daemon/notify/delivery.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/notify/http_receiver.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Row = std::shared_ptr<model::AlertRow>;

// An outbox in front of a store of rows, as the pipeline keeps them.
class OutboxTest : public ::testing::Test {
 protected:
  ~OutboxTest() override { outbox_.reset(); }

  void Start(const std::vector<NotifierOptions>& notifiers) {
    outbox_ = std::make_unique<Outbox>(
        Outbox::Options{.alerts_max = 100},
        Outbox::Deps{.clock = &clock_,
                     .update = [this](const std::string&, const std::string& id,
                                      const std::function<void(model::AlertRow*)>& change) {
                       base::MutexLock lock(&mutex_);
                       const auto row = rows_.find(id);
                       if (row == rows_.end()) return absl::NotFoundError("no such alert");
                       change(&row->second);
                       changed_.NotifyAll();
                       return absl::OkStatus();
                     }});
    {
      base::MutexLock lock(&mutex_);
      for (const auto& [id, row] : rows_) {
        if (row.undelivered()) outbox_->Offer(row);
      }
    }
    ASSERT_OK(outbox_->SetNotifiers(notifiers, ""));
  }
  // As the pipeline: what was told goes on with the new row.
  void Commit(model::AlertRow row) {
    {
      base::MutexLock lock(&mutex_);
      *row.mutable_deliveries() = rows_[row.alert().id()].deliveries();
      rows_[row.alert().id()] = row;
    }
    outbox_->Offer(row);
  }
  void Resolve(const std::string& id) {
    Row row = Firing(id, "critical");
    row->mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
    row->set_ended_unix_ns(absl::ToUnixNanos(absl::Now()));
    Commit(*row);
  }
  template <typename Condition>
  bool WaitFor(const std::string& id, const Condition& condition) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    base::MutexLock lock(&mutex_);
    while (!condition(rows_.at(id))) {
      if (absl::Now() > deadline) return false;
      changed_.WaitFor(&mutex_, absl::Milliseconds(50));
    }
    return true;
  }
  bool WaitToldTo(const std::string& id, const std::string& name) {
    return WaitFor(id, [&](const auto& row) { return FindDelivery(row, name) != nullptr; });
  }
  bool WaitDelivered(const std::string& id) {
    return WaitFor(id, [](const auto& row) { return !row.undelivered(); });
  }

  static NotifierOptions Hook(const std::string& name, const HttpReceiver& receiver) {
    return {.name = name,
            .type = NotifierType::kWebhook,
            .urls = {receiver.url()},
            .http = {.timeout = absl::Seconds(30)}};
  }

  base::SystemClock clock_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::map<std::string, model::AlertRow> rows_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Outbox> outbox_;
};

std::string Good(const std::string&) { return HttpResponse(202); }

TEST_F(OutboxTest, TellsEachReceiverOnceAndLeavesTheOutboxWhenItIsOver) {
  HttpReceiver a(Good);
  HttpReceiver b(Good);
  Start({Hook("a", a), Hook("b", b)});
  Commit(*Firing("x", "critical"));
  EXPECT_TRUE(WaitToldTo("x", "a"));
  EXPECT_TRUE(WaitToldTo("x", "b"));
  Resolve("x");
  EXPECT_TRUE(WaitDelivered("x"));
  outbox_->Stop(absl::Seconds(5));
  for (const HttpReceiver* receiver : {&a, &b}) {
    ASSERT_THAT(receiver->requests(), SizeIs(2));
    EXPECT_THAT(receiver->requests()[0], HasSubstr("\"status\":\"firing\""));
    EXPECT_THAT(receiver->requests()[1], HasSubstr("\"status\":\"resolved\""));
  }
  EXPECT_EQ(outbox_->stats()["a"].results["sent"], 2u);
}

TEST_F(OutboxTest, ADeletedRunIsToldAsOverThoughItsRowsAreGone) {
  HttpReceiver a(Good);
  Start({Hook("a", a)});
  Commit(*Firing("x", "critical"));
  EXPECT_TRUE(WaitToldTo("x", "a"));
  {
    base::MutexLock lock(&mutex_);
    rows_.clear();
  }
  outbox_->DropRun("exp-42");
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (a.requests().size() < 2 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  outbox_->Stop(absl::Seconds(5));
  ASSERT_THAT(a.requests(), SizeIs(2));
  EXPECT_THAT(a.requests()[1], HasSubstr("\"status\":\"resolved\""));
  EXPECT_THAT(a.requests()[1], HasSubstr("the run was deleted, it fired until then"));
}

TEST_F(OutboxTest, OneThatHangsHoldsUpNobodyElseAndNotTheStop) {
  HttpReceiver good(Good);
  HttpReceiver bad([](const std::string&) { return "hang"; });
  Start({Hook("bad", bad), Hook("good", good)});
  Commit(*Firing("x"));
  EXPECT_TRUE(WaitToldTo("x", "good"));
  outbox_->Stop(absl::Milliseconds(50));
  // The next process tells only who has not been told.
  HttpReceiver mended(Good);
  Start({Hook("bad", mended), Hook("good", good)});
  EXPECT_TRUE(WaitToldTo("x", "bad"));
  EXPECT_THAT(good.requests(), SizeIs(1));
}

TEST_F(OutboxTest, ANotifierThatIsAddedHearsOfWhatGoesOn) {
  HttpReceiver old(Good);
  HttpReceiver added(Good);
  Start({Hook("old", old)});
  Commit(*Firing("x"));
  EXPECT_TRUE(WaitToldTo("x", "old"));
  ASSERT_OK(outbox_->SetNotifiers({Hook("old", old), Hook("added", added)}, ""));
  EXPECT_TRUE(WaitToldTo("x", "added"));
  EXPECT_THAT(old.requests(), SizeIs(1));
}

TEST_F(OutboxTest, NotifiersThatCannotBeMadeLeaveTheOldOnesInForce) {
  HttpReceiver receiver(Good);
  Start({Hook("a", receiver)});
  NotifierOptions broken = {
      .name = "pd", .type = NotifierType::kPagerDuty, .routing_key = {.file = "/nonexistent/key"}};
  EXPECT_THAT(outbox_->SetNotifiers({broken}, ""),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("notifier 'pd'")));
  Commit(*Firing("x"));
  EXPECT_TRUE(WaitToldTo("x", "a"));
}

TEST_F(OutboxTest, WithoutNotifiersNothingStaysInTheOutbox) {
  Start({});
  Commit(*Firing("x"));
  Resolve("x");
  EXPECT_TRUE(WaitDelivered("x"));
}

TEST_F(OutboxTest, AlertsOverTheLimitAreCounted) {
  Start({});
  for (int i = 0; i < 110; ++i) Commit(*Firing(absl::StrCat("x", i)));
  EXPECT_EQ(outbox_->left_out(), 10u);
}

}  // namespace
}  // namespace foreshock::notify
