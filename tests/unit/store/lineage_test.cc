#include "daemon/store/lineage.h"

#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {

void PrintTo(const Stretch& stretch, std::ostream* out) {
  *out << "{" << stretch.attempt << ", " << stretch.first << ", " << stretch.last << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

model::AttemptRow Attempt(uint32_t number, int64_t first, int64_t last) {
  model::AttemptRow row;
  row.set_number(number);
  row.set_first_step(first);
  row.set_last_step(last);
  return row;
}

TEST(LineageTest, TheNewestAttemptThatReachedAStepOwnsIt) {
  const std::vector<model::AttemptRow> attempts = {Attempt(1, 0, 100), Attempt(2, 61, 80)};
  EXPECT_THAT(Stretches(attempts, {}),
              ElementsAre(Stretch{1, 0, 60}, Stretch{2, 61, 80}, Stretch{1, 81, 100}));
  EXPECT_THAT(Stretches(attempts, {.first = 70, .last = 81}),
              ElementsAre(Stretch{2, 70, 80}, Stretch{1, 81, 81}));
  EXPECT_THAT(Stretches(attempts, {.first = 101}), IsEmpty());
  EXPECT_THAT(Stretches(attempts, {.first = 5, .last = 4}), IsEmpty());
}

TEST(LineageTest, ANamedAttemptIsReadOverTheWholeRange) {
  const std::vector<model::AttemptRow> attempts = {Attempt(1, 10, 20)};
  EXPECT_THAT(Stretches(attempts, {.first = 5, .last = 7, .attempt = 4}),
              ElementsAre(Stretch{4, 5, 7}));
}

TEST(LineageTest, AnAttemptThatClosedNoStepOwnsNone) {
  model::AttemptRow open;
  open.set_number(2);
  EXPECT_THAT(Stretches(std::vector<model::AttemptRow>{Attempt(1, 3, 4), open}, {}),
              ElementsAre(Stretch{1, 3, 4}));
  EXPECT_THAT(Stretches({}, {}), IsEmpty());
}

TEST(LineageTest, ReachesTheEndsOfTheStepRange) {
  EXPECT_THAT(
      Stretches(std::vector<model::AttemptRow>{Attempt(1, 0, kMax), Attempt(2, 5, kMax)}, {}),
      ElementsAre(Stretch{1, 0, 4}, Stretch{2, 5, kMax}));
  EXPECT_THAT(Stretches(std::vector<model::AttemptRow>{Attempt(1, 0, kMax), Attempt(2, 0, 0)}, {}),
              ElementsAre(Stretch{2, 0, 0}, Stretch{1, 1, kMax}));
}

TEST(LineageTest, AgreesStepByStepWithTheDefinition) {
  constexpr unsigned kSeed = 20261;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed " << kSeed << " round " << round);
    std::vector<model::AttemptRow> attempts;
    const int count = static_cast<int>(random() % 6);
    for (int i = 1; i <= count; ++i) {
      const int64_t first = random() % 12;
      attempts.push_back(Attempt(i, first, first + random() % 8));
    }
    std::shuffle(attempts.begin(), attempts.end(), random);
    const StepRange range{.first = static_cast<int64_t>(random() % 6),
                          .last = static_cast<int64_t>(random() % 20)};

    std::vector<uint32_t> owner(32, 0);  // by step
    for (const Stretch& stretch : Stretches(attempts, range)) {
      ASSERT_LE(stretch.first, stretch.last);
      for (int64_t step = stretch.first; step <= stretch.last; ++step) {
        ASSERT_EQ(owner[step], 0u) << "step " << step << " twice";
        owner[step] = stretch.attempt;
      }
    }
    for (int64_t step = 0; step < 32; ++step) {
      uint32_t newest = 0;
      for (const model::AttemptRow& row : attempts) {
        if (row.first_step() <= step && step <= row.last_step()) {
          newest = std::max(newest, row.number());
        }
      }
      const bool inside = range.first <= step && step <= range.last;
      EXPECT_EQ(owner[step], inside ? newest : 0u) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace foreshock::store
