#include "daemon/rules/warm_up.h"

#include <gtest/gtest.h>

#include <cmath>

#include <functional>

namespace foreshock::rules {
namespace {

// The first step of [0, steps) at which the schedule has settled, -1 if none.
int64_t SettledAt(int64_t steps, const std::function<double(int64_t)>& lr, int64_t window = 0) {
  Schedule schedule;
  schedule.BeginAttempt();
  for (int64_t step = 0; step < steps; ++step) {
    schedule.Push(
        {.step = step, .lr = lr(step), .tokens = 0, .snapshot_window = window, .events = {}});
    if (schedule.settled()) return step;
  }
  return -1;
}

double Linear(int64_t step, int64_t warm_up) {
  return 1e-3 * std::min<double>(1.0, static_cast<double>(step + 1) / static_cast<double>(warm_up));
}

TEST(ScheduleTest, SettlesAfterTheWarmUpOfAnyLength) {
  for (const int64_t warm_up : {50, 100, 500, 2000, 20000}) {
    const int64_t settled =
        SettledAt(warm_up + 2000, [=](int64_t step) { return Linear(step, warm_up); });
    // Found within the flat window (a twentieth of the way), then 150 steps.
    EXPECT_GE(settled, warm_up * 9 / 10 + 150) << warm_up;
    EXPECT_LE(settled, warm_up + warm_up / 20 + 5 + 150) << warm_up;
  }
}

TEST(ScheduleTest, SettlingIsTenSnapshotWindowsWhereThoseAreShort) {
  const auto lr = [](int64_t step) { return Linear(step, 100); };
  const int64_t slow = SettledAt(1000, lr);
  EXPECT_EQ(SettledAt(1000, lr, 10), slow - 50);
  EXPECT_EQ(SettledAt(1000, lr, 200), slow);
}

TEST(ScheduleTest, AStaircaseIsNotOverAtItsFirstStair) {
  const auto stairs = [](int64_t step) { return 1e-3 * (1 + std::min<int64_t>(step / 60, 4)); };
  EXPECT_GE(SettledAt(1000, stairs), 240 + 150);
}

// A fault that begins before the run has settled must not become the plateau.
TEST(ScheduleTest, ARiseAfterALongFlatPieceIsNoStair) {
  const auto lr = [](int64_t step) {
    if (step < 50) return 2e-5 * static_cast<double>(step + 1);
    return step < 190 ? 1e-3 : 1e-3 * std::pow(1.05, static_cast<double>(step - 190));
  };
  Schedule schedule;
  schedule.BeginAttempt();
  for (int64_t step = 0; step < 300; ++step) {
    schedule.Push({.step = step, .lr = lr(step), .tokens = 0, .snapshot_window = 0, .events = {}});
  }
  EXPECT_TRUE(schedule.settled());
  EXPECT_DOUBLE_EQ(schedule.plateau().value_or(0), 1e-3);
}

TEST(ScheduleTest, ARunWithoutLearningRateOnlySettles) {
  Schedule schedule;
  schedule.BeginAttempt();
  for (int64_t step = 0; step < 150; ++step) {
    schedule.Push(
        {.step = step, .lr = std::nullopt, .tokens = 0, .snapshot_window = 0, .events = {}});
    EXPECT_FALSE(schedule.settled());
  }
  schedule.Push({.step = 150, .lr = std::nullopt, .tokens = 0, .snapshot_window = 0, .events = {}});
  EXPECT_TRUE(schedule.settled());
  EXPECT_FALSE(schedule.plateau().has_value());
}

TEST(ScheduleTest, ADeclaredEndOfTheWarmUpIsBelieved) {
  Schedule schedule;
  schedule.BeginAttempt();
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_WARMUP_END);
  event.set_step(20);
  for (int64_t step = 0; step <= 170; ++step) {
    const bool now = step == 20;
    schedule.Push({.step = step,
                   .lr = Linear(step, 20),
                   .tokens = 0,
                   .snapshot_window = 0,
                   .events = now ? absl::MakeConstSpan(&event, 1) : absl::Span<const v1::Event>()});
  }
  EXPECT_TRUE(schedule.settled());
  EXPECT_DOUBLE_EQ(*schedule.plateau(), 1e-3);
}

std::vector<std::pair<int64_t, int>> CausesOf(int64_t steps,
                                              const std::function<double(int64_t)>& lr,
                                              const std::function<double(int64_t)>& tokens) {
  Schedule schedule;
  schedule.BeginAttempt();
  std::vector<std::pair<int64_t, int>> causes;
  for (int64_t step = 0; step < steps; ++step) {
    const int cause = schedule.Push(
        {.step = step, .lr = lr(step), .tokens = tokens(step), .snapshot_window = 0, .events = {}});
    if (cause != 0) causes.emplace_back(step, cause);
  }
  return causes;
}

TEST(ScheduleTest, RebasesOnStepsOfTheScheduleButNotOnARiseAboveThePlateau) {
  const auto constant_tokens = [](int64_t) { return 4096.0; };
  const auto drop = [](int64_t step) { return step < 400 ? Linear(step, 100) : 1e-4; };
  const auto causes = CausesOf(500, drop, constant_tokens);
  ASSERT_FALSE(causes.empty());
  EXPECT_EQ(causes.front().first, 400);
  EXPECT_EQ(causes.back().first, 404);  // within five steps of it
  EXPECT_EQ(causes.front().second, kRebaseLr);

  const auto jump = [](int64_t step) { return step < 400 ? Linear(step, 100) : 2e-3; };
  EXPECT_TRUE(CausesOf(500, jump, constant_tokens).empty());

  const auto cosine = [](int64_t step) {
    return step < 100
               ? Linear(step, 100)
               : 1e-3 * (0.55 + 0.45 * std::cos(3.14159 * static_cast<double>(step - 100) / 2000));
  };
  EXPECT_TRUE(CausesOf(2000, cosine, constant_tokens).empty());
}

TEST(ScheduleTest, RebasesOnTheBatchSizeButNotOnItsJitter) {
  const auto lr = [](int64_t step) { return Linear(step, 100); };
  const auto doubled = CausesOf(600, lr, [](int64_t step) { return step < 400 ? 4096.0 : 8192.0; });
  ASSERT_EQ(doubled.size(), 1u);
  EXPECT_EQ(doubled[0], std::make_pair(int64_t{400}, int{kRebaseBatchSize}));

  // Packed batches: 3 000 to 5 000 tokens, in an order without a trend.
  const auto jitter = [](int64_t step) {
    return 3000.0 + static_cast<double>(step * 2654435761 % 4294967296 % 2000);
  };
  EXPECT_TRUE(CausesOf(600, lr, jitter).empty());
  const auto jitter_doubled = [&](int64_t step) { return jitter(step) * (step < 400 ? 1 : 2); };
  const auto found = CausesOf(600, lr, jitter_doubled);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GE(found[0].first, 400);
  EXPECT_LE(found[0].first, 500);
}

TEST(ScheduleTest, AResumeKeepsThePlateauAndANewWarmUpIsWaitedFor) {
  Schedule schedule;
  schedule.BeginAttempt();
  const auto push = [&schedule](int64_t step, double lr) {
    return schedule.Push(
        {.step = step, .lr = lr, .tokens = 4096, .snapshot_window = 0, .events = {}});
  };
  for (int64_t step = 0; step < 500; ++step) push(step, Linear(step, 100));
  const double plateau = *schedule.plateau();
  ASSERT_TRUE(schedule.settled());

  schedule.BeginAttempt();
  EXPECT_EQ(push(400, 1e-3), 0);
  EXPECT_TRUE(schedule.settled());

  schedule.BeginAttempt();
  push(400, 1e-5);
  EXPECT_FALSE(schedule.settled());
  for (int64_t step = 401; step < 800; ++step) push(step, Linear(step - 400, 50));
  EXPECT_TRUE(schedule.settled());
  EXPECT_DOUBLE_EQ(*schedule.plateau(), plateau);
}

}  // namespace
}  // namespace foreshock::rules
