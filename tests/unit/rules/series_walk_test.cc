// Random series against a slow reference: values with ties, trends, jumps and spikes, gaps, steps
// without a value, resumes that go back any number of steps, changes of regime.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "daemon/rules/rule.h"
#include "daemon/rules/series_judge.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/series_reference.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

struct Walk {
  const char* detector;
  const char* baseline;
  int fired_at_least;
};

class SeriesWalkTest : public ::testing::TestWithParam<Walk> {};

TEST_P(SeriesWalkTest, AgreesWithTheReference) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::normal_distribution<double> noise;
  int fired = 0;
  for (int walk = 0; walk < 25; ++walk) {
    std::vector<std::string> keys = {"indicator: train.x", GetParam().detector};
    if (GetParam().baseline[0] != '\0') {
      keys.push_back(absl::StrCat("baseline: ", GetParam().baseline));
    }
    const int of = draw(1, 4);
    keys.push_back(absl::StrCat("hits: ", draw(1, of), " of ", of));
    keys.push_back(absl::StrCat("clear_samples: ", draw(1, 4)));
    if (draw(0, 2) == 0) keys.push_back(absl::StrCat("smooth: {median: ", draw(2, 5), "}"));
    const auto set = ParseRules("walk.yaml", OneRule(keys));
    ASSERT_OK(set);
    const Rule& rule = *std::dynamic_pointer_cast<const CompiledRules>(*set)->rules[0];

    SeriesJudge judge(rule);
    ReferenceSeries reference(rule);
    int64_t step = 0;
    int64_t previous = 0;
    double level = 10;
    double trend = 0;
    for (int i = 0; i < 500; ++i) {
      const int event = draw(1, 100);
      if (event <= 3) {
        step = std::max<int64_t>(0, step - draw(1, draw(0, 3) == 0 ? 200 : 30));
        judge.Resume(step + 1);
        reference.Resume(step + 1);
      } else if (event == 4) {
        judge.Rebase();
        reference.Rebase();
      } else if (event <= 10) {
        step += draw(2, 40);  // a gap, or values that are no numbers
      } else if (event <= 13) {
        level = draw(4, 16);
      } else if (event <= 18) {
        trend = draw(0, 1) == 0 ? 0 : 0.2 * noise(random);
      }
      step += 1;
      level += trend;
      double value = std::round(16 * (level + 0.25 * noise(random))) / 16;
      if (draw(1, 20) == 1) value += draw(-20, 20);
      SCOPED_TRACE("walk " + std::to_string(walk) + " sample " + std::to_string(i));
      const Transition transition = judge.Push(step, previous, value, std::nullopt);
      ASSERT_EQ(transition, reference.Push(step, previous, value)) << rule.canonical;
      previous = step;
      ASSERT_EQ(judge.machine().phase, reference.phase());
      if (transition == Transition::kFired) ++fired;
      if (!judge.firing()) continue;
      ASSERT_NEAR(judge.value(), reference.value(), 1e-9 * std::abs(reference.value()));
      ASSERT_EQ(judge.baseline().has_value(), reference.baseline().has_value());
      if (judge.baseline().has_value()) {
        ASSERT_NEAR(*judge.baseline(), *reference.baseline(),
                    1e-9 * std::abs(*reference.baseline()));
      }
      ASSERT_EQ(judge.base_step(), reference.base_step());
    }
  }
  EXPECT_GT(fired, GetParam().fired_at_least);  // the walks do reach what they are to compare
}

constexpr char kTrailing[] = "{samples: 20, lag: 12, min_samples: 6}";
constexpr char kAnchored[] = "{kind: anchored, samples: 12}";
constexpr char kFixed[] = "{kind: fixed, value: 10, spread_floor: 0.1}";

INSTANTIATE_TEST_SUITE_P(
    Detectors, SeriesWalkTest,
    ::testing::Values(
        Walk{"robust_z: {outside: 6.1, clear: 3.3}", kTrailing, 40},
        Walk{"robust_z: {above: 5.1, clear: 3.3, log: true}", kAnchored, 40},
        Walk{"cusum: {outside: 9.3, slack: 0.7, clear: 5.1}", kTrailing, 40},
        Walk{"cusum: {above: 7.3, slack: 1.1}", kAnchored, 40},
        Walk{"cusum: {below: -6.3, slack: 0.6, clear: -2.2}", kFixed, 40},
        Walk{"level_shift: {outside: 3.1, samples: 12, clear: 1.3}", kTrailing, 40},
        Walk{"level_shift: {below: -3.1, samples: 7, clear: -1.3, log: true}", kAnchored, 20},
        Walk{"slope: {above: 7.3, clear: 2.1, per: 100 steps, samples: 15}", "", 20},
        Walk{"slope: {below: -7.3, per: 100 steps, samples: 40, min_samples: 8}", "", 20},
        Walk{"slope: {will_cross: {above: 15.3, clear: 13.1}, within: 40 steps, samples: 12}", "",
             20},
        Walk{"slope: {will_cross: {below: 4.3}, within: 40 steps, samples: 20, min_z: 2.2}", "",
             20},
        Walk{"spike_budget: {spike: {outside: 6.1}, share: 15%, of: 20 samples, clear: 5%}",
             kTrailing, 20},
        Walk{"spike_budget: {spike: {above: 4.1, log: true}, share: 10%, of: 15 samples}",
             kAnchored, 8},
        Walk{"continuity: {outside: 0.11, within: 60 steps, clear: 0.05}", kTrailing, 8},
        Walk{"continuity: {outside: 0.13, within: 20 samples, min_z: 2, samples: 60}", kFixed, 8},
        Walk{"continuity: {outside: 0.2, within: 40 steps, min_z: 0}", kAnchored, 8}));

}  // namespace
}  // namespace foreshock::rules
