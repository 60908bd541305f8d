#include "daemon/pipeline/run_state.h"

#include <memory>
#include <string>

#include "daemon/rules/rule_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"

namespace foreshock::pipeline {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
constexpr uint32_t kRanks = 16;

// A run with a store, committed by hand.
class RunStateTest : public ::testing::Test {
 protected:
  absl::StatusOr<Admitted> Open(const std::string& launch, uint32_t rank, StreamId stream) {
    v1::Hello hello;
    hello.set_run("exp-42");
    hello.set_launch_id(launch);
    hello.set_client_instance(launch + std::to_string(rank));
    hello.set_rank(rank);
    hello.set_world_size(kRanks);
    return run_.Open(hello, stream, kStart, &changes_);
  }
  void Report(uint32_t attempt, const std::string& launch, uint32_t rank, uint64_t seq) {
    model::ShardReport report;
    report.set_rank(rank);
    report.set_client_instance(launch + std::to_string(rank));
    report.set_seq(seq);
    report.set_step(static_cast<int64_t>(seq));
    report.set_last_of_step(true);
    run_.Add(attempt, report, kStart, /*room=*/true, &changes_.batch);
  }
  void Commit() {
    run_.Settle(kStart, Budget(), &changes_);
    run_.Settle(kStart, Budget(), &changes_);  // forgets what has closed
    ASSERT_OK(store_->Write(std::exchange(changes_, {}).batch));
  }

  PipelineStats stats_;
  std::unique_ptr<store::Store> store_ = support::NewMemoryStore();
  RunState run_{"exp-42", {}, rules::LoadRules({}).value(), store_.get(), &stats_};
  Changes changes_;
};

TEST_F(RunStateTest, OldAttemptsLeaveMemoryOnceTheirStreamsHaveEnded) {
  const auto stream_of = [](uint32_t launch, uint32_t rank) { return launch * 100 + rank; };
  const auto end_streams = [&](uint32_t launch) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      run_.StreamEnded(launch, rank, stream_of(launch, rank));
    }
  };
  for (uint32_t launch = 1; launch <= 20; ++launch) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_OK(Open("launch-" + std::to_string(launch), rank, stream_of(launch, rank)));
    }
    Commit();
    run_.ForgetIdleAttempts();
    EXPECT_EQ(run_.ranks_held(), kRanks * (launch == 1 ? 1 : 2)) << "the streams before go on";
    if (launch > 1) end_streams(launch - 1);
  }
  run_.ForgetIdleAttempts();
  EXPECT_EQ(run_.ranks_held(), kRanks) << "the newest stays";
  EXPECT_EQ(run_.status().size(), 20u);
}

TEST_F(RunStateTest, AHelloOfALaunchThatHasLeftMemoryBringsItBack) {
  ASSERT_OK_AND_ASSIGN(const Admitted first, Open("old", 0, 1));
  Report(first.attempt, "old", 0, 5);
  run_.StreamEnded(first.attempt, 0, 1);
  ASSERT_OK(Open("new", 0, 2));
  Commit();
  run_.ForgetIdleAttempts();
  ASSERT_EQ(run_.ranks_held(), 1u);

  ASSERT_OK_AND_ASSIGN(const Admitted back, Open("old", 0, 3));
  EXPECT_EQ(back.attempt, first.attempt);
  EXPECT_EQ(back.last_committed_seq, 5u);
  EXPECT_EQ(run_.ranks_held(), 2u);
  v1::Hello other;
  other.set_launch_id("old");
  other.set_world_size(kRanks + 1);
  EXPECT_FALSE(run_.Open(other, 4, kStart, &changes_).ok());
}

}  // namespace
}  // namespace foreshock::pipeline
