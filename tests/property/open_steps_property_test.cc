// Random schedules of ranks, restarts included: as long as no rank is silent for longer than the
// lateness, no report is ever too late, and every step closes once, complete, in order.

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "daemon/merge/open_steps.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::property {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
constexpr uint32_t kRanks = 4;
constexpr int64_t kSteps = 600;
constexpr int64_t kSkewSteps = 70;

model::ShardReport Report(uint32_t rank, int64_t step) {
  model::ShardReport report;
  report.set_rank(rank);
  report.set_step(step);
  report.set_last_of_step(true);
  return report;
}

// What a store would keep of the merge: open reports, the last closed step, each rank's progress.
struct Stored {
  std::map<std::pair<int64_t, uint32_t>, model::ShardReport> reports;
  std::optional<int64_t> last_closed;
  std::vector<int64_t> done = std::vector<int64_t>(kRanks, -1);
};

std::unique_ptr<merge::OpenSteps> Restart(const Stored& stored) {
  auto steps = std::make_unique<merge::OpenSteps>(merge::OpenSteps::Options{}, kRanks);
  if (stored.last_closed.has_value()) {
    const int64_t settled =
        stored.reports.empty() ? *stored.last_closed : stored.reports.begin()->first.first - 1;
    steps->RestoreClosed(*stored.last_closed, settled);
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) steps->RestoreRank(rank, stored.done[rank], false);
  for (const auto& [key, report] : stored.reports) steps->RestoreReport(report, kStart);
  return steps;
}

TEST(OpenStepsPropertyTest, NothingIsLostWhileRanksStayTogether) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    Stored stored;
    auto steps = Restart(stored);
    std::vector<int64_t> next(kRanks, 0);
    int64_t expected = 0;
    while (*std::min_element(next.begin(), next.end()) < kSteps) {
      if (random() % 200 == 0) steps = Restart(stored);
      const uint32_t rank = static_cast<uint32_t>(random() % kRanks);
      const int64_t slowest = *std::min_element(next.begin(), next.end());
      // Bursts, so that ranks drift as far apart as they may.
      for (uint64_t burst = random() % 40; burst > 0; --burst) {
        if (next[rank] >= kSteps || next[rank] - slowest > kSkewSteps) break;
        const int64_t step = next[rank]++;
        ASSERT_EQ(steps->Add(Report(rank, step), kStart), merge::OpenSteps::Outcome::kOpen)
            << "rank " << rank << ", step " << step;
        stored.reports.emplace(std::pair(step, rank), Report(rank, step));
        stored.done[rank] = step;
      }
      for (const merge::SettledStep& closed : steps->TakeSettled(kStart)) {
        ASSERT_EQ(closed.row.step, expected++);
        ASSERT_EQ(closed.row.ranks, kRanks);
        ASSERT_FALSE(closed.row.partial);
        stored.last_closed = closed.row.step;
      }
      if (steps->settled_through().has_value()) {
        stored.reports.erase(stored.reports.begin(),
                             stored.reports.lower_bound({*steps->settled_through() + 1, 0}));
      }
    }
    EXPECT_EQ(expected, kSteps);
  }
}

}  // namespace
}  // namespace foreshock::property
