// rate_limit: an alert does not start more often than allowed.
#include "daemon/rules/rate_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RateLimitTest, TheLastStartThatIsAllowedIsHeldUntilItWasClearForTheWindow) {
  TestRun run(OneRule(
      {"indicator: train.x", "threshold: {above: 1}", "rate_limit: {starts: 3, in: 100 steps}"}));
  // Breaches at 0, 10, 20, ... 50 for one step each.
  for (int i = 0; i < 200; ++i) {
    run.Step(i, {MakeSample("train.x", i <= 50 && i % 10 == 0 ? 2 : 0)});
  }
  // Clear since 51: over at 151.
  ASSERT_THAT(run.seen, ElementsAre("0 r firing", "1 r resolved", "10 r firing", "11 r resolved",
                                    "20 r firing", "151 r resolved"));
  EXPECT_FALSE(run.rows[2].alert().labels().contains("flapping"));
  const v1::Alert& held = run.rows[4].alert();
  EXPECT_EQ(held.labels().at("flapping"), "true");
  EXPECT_THAT(held.description(), HasSubstr("started 3 times in 100 steps"));
  run.Step(300, {MakeSample("train.x", 2)});  // the others are long ago
  EXPECT_EQ(run.seen.back(), "300 r firing");
  EXPECT_FALSE(run.rows.back().alert().labels().contains("flapping"));
}

TEST(RateLimitTest, WorksForSignatures) {
  TestRun run(OneRule({"indicator: train.x", "threshold: {above: 1}"}) +
              "signatures:\n"
              "  - signature: s\n"
              "    when: r\n"
              "    rate_limit: {starts: 2, in: 50 steps}\n"
              "    labels: {severity: warning, fault: f}\n");
  for (int i = 0; i < 100; ++i) {
    run.Step(i, {MakeSample("train.x", i <= 20 && i % 10 == 0 ? 2 : 0)});
  }
  std::vector<std::string> signature;
  for (const std::string& line : run.seen) {
    if (line.find(" s ") != std::string::npos) signature.push_back(line);
  }
  // Between its start at 10 and its end its evidence comes and goes.
  EXPECT_THAT(signature, ElementsAre("0 s firing", "1 s resolved", "10 s firing", "11 s firing",
                                     "20 s firing", "21 s firing", "71 s resolved"));
  EXPECT_EQ(run.rows.back().alert().firing_step(), 10);
}

TEST(RateLimitTest, IsHeldOverARestart) {
  const std::string rules = OneRule(
      {"indicator: train.x", "threshold: {above: 1}", "rate_limit: {starts: 2, in: 50 steps}"});
  const auto step = [](int64_t i) {
    return MakeStep(i, {MakeSample("train.x", i == 0 || i == 10 ? 2 : 0)});
  };
  TestRun before(rules);
  for (int i = 0; i < 30; ++i) before.Step(step(i));
  ASSERT_THAT(before.seen, ElementsAre("0 r firing", "1 r resolved", "10 r firing"));
  for (const bool primed : {true, false}) {
    TestRun after(rules);
    for (int i = 0; i < 30 && primed; ++i) after.evaluator->Prime(step(i));
    ASSERT_OK(after.evaluator->Restore(before.rows.back()));
    for (int i = 30; i < 100; ++i) after.Step(step(i));
    // Without its past it counts what is clear from the first clear step it sees.
    EXPECT_THAT(after.seen, ElementsAre(primed ? "61 r resolved" : "80 r resolved"));
  }
}

// Against a plain reading of the sentence in docs/rules.md, over random sequences.
TEST(RateLimitTest, RandomSequencesNeverStartMoreOftenThanAllowed) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int held = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const RateLimitSpec spec{.starts = std::uniform_int_distribution<int>(1, 4)(random),
                             .steps = std::uniform_int_distribution<int64_t>(1, 40)(random)};
    std::bernoulli_distribution breach(std::uniform_real_distribution<double>(0.01, 0.5)(random));
    RateLimit limit;
    bool active = false;
    std::vector<int64_t> starts;
    int64_t clear_since = -1;
    for (int64_t step = 0; step < 400; ++step) {
      const bool holds = breach(random);
      if (holds) {
        clear_since = -1;
        limit.Seen();
        if (!active) {
          active = true;
          limit.Start(spec, step);
          starts.push_back(step);
        }
      } else if (active) {
        if (clear_since < 0) clear_since = step;
        const size_t n = static_cast<size_t>(spec.starts);
        const bool last_allowed =
            starts.size() >= n && starts.back() - starts[starts.size() - n] < spec.steps;
        const bool expected = last_allowed && step - clear_since < spec.steps;
        ASSERT_EQ(limit.Holds(spec, step), expected) << "trial " << trial << " step " << step;
        active = expected;
        held += expected ? 1 : 0;
      }
    }
    // In any window, no more starts than allowed.
    for (size_t i = static_cast<size_t>(spec.starts); i < starts.size(); ++i) {
      EXPECT_GE(starts[i] - starts[i - static_cast<size_t>(spec.starts)], spec.steps);
    }
  }
  EXPECT_GT(held, 100);
}

}  // namespace
}  // namespace foreshock::rules
