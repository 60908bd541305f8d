#include "daemon/app/cleanups.h"

#include <memory>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A part that does not end before it is let go.
struct Stuck {
  base::Mutex mutex;
  base::CondVar changed;
  bool let_go ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  absl::Status End() {
    base::MutexLock lock(&mutex);
    while (!let_go) changed.Wait(&mutex);
    ended = true;
    changed.NotifyAll();
    return absl::OkStatus();
  }
  void LetGo() {
    base::MutexLock lock(&mutex);
    let_go = true;
    changed.NotifyAll();
    while (!ended) changed.Wait(&mutex);
  }
};

class CleanupsTest : public ::testing::Test {
 protected:
  Cleanups::Cleanup Note(const std::string& name, absl::Status status = absl::OkStatus()) {
    return [this, name, status](absl::Duration) {
      order_.push_back(name);
      return status;
    };
  }

  Cleanups cleanups_;
  std::vector<std::string> order_;
};

TEST_F(CleanupsTest, RunsOnceAndTheNewestFirst) {
  for (const char* name : {"store", "pipeline", "gRPC"}) cleanups_.Add(name, {}, Note(name));
  EXPECT_OK(cleanups_.Run(absl::Seconds(10)));
  EXPECT_OK(cleanups_.Run(absl::Seconds(10)));
  EXPECT_THAT(order_, ElementsAre("gRPC", "pipeline", "store"));
  EXPECT_FALSE(cleanups_.hung());
}

TEST_F(CleanupsTest, GoesOnAfterAFailureAndReturnsTheFirst) {
  cleanups_.Add("store", {}, Note("store", absl::DataLossError("no room")));
  cleanups_.Add("pipeline", {}, Note("pipeline", absl::DeadlineExceededError("too slow")));
  cleanups_.Add("gRPC", {}, Note("gRPC"));
  EXPECT_THAT(
      cleanups_.Run(absl::Seconds(10)),
      support::StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("pipeline: too slow")));
  EXPECT_THAT(order_, ElementsAre("gRPC", "pipeline", "store"));
}

TEST_F(CleanupsTest, APartMayTakeItsShareAndNoMoreThanItsLimit) {
  std::vector<absl::Duration> allowed;
  const auto note = [&allowed](absl::Duration time) {
    allowed.push_back(time);
    return absl::OkStatus();
  };
  cleanups_.Add("limited", {.at_most = absl::Seconds(2)}, note);
  cleanups_.Add("half", {}, note);
  EXPECT_OK(cleanups_.Run(absl::Hours(1)));
  EXPECT_OK(cleanups_.Run(absl::Hours(1)));
  ASSERT_EQ(allowed.size(), 2u);
  EXPECT_GT(allowed[0], absl::Minutes(29));
  EXPECT_LE(allowed[0], absl::Minutes(30));
  EXPECT_EQ(allowed[1], absl::Seconds(2));
}

TEST_F(CleanupsTest, APartThatHangsIsLeftBehindAndTheOthersEndWithinTheDeadline) {
  const auto stuck = std::make_shared<Stuck>();
  cleanups_.Add("store", {}, Note("store"));
  cleanups_.Add("pipeline", {}, [stuck](absl::Duration) { return stuck->End(); });
  cleanups_.Add("gRPC", {}, Note("gRPC"));
  const absl::Time started = base::SteadyNow();
  EXPECT_THAT(cleanups_.Run(absl::Milliseconds(500)),
              support::StatusIs(absl::StatusCode::kDeadlineExceeded,
                                HasSubstr("pipeline: did not end within 2")));
  EXPECT_LT(base::SteadyNow() - started, absl::Seconds(10)) << "it would have waited for ever";
  EXPECT_THAT(order_, ElementsAre("gRPC", "store"));
  EXPECT_TRUE(cleanups_.hung());
  stuck->LetGo();
}

}  // namespace
}  // namespace foreshock::app
