#include "daemon/rules/detector.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace foreshock::rules {
namespace {

using Verdict = std::function<Judgement(double value, const std::optional<Baseline>& baseline)>;

template <typename Spec>
Verdict Make(Side side, double limit, double clear, double min_z = 0) {
  Spec spec;
  spec.limits.side = side;
  spec.limits.limit = limit;
  spec.limits.clear = clear;
  if constexpr (requires { spec.min_z; }) spec.min_z = min_z;
  return [spec](double value, const std::optional<Baseline>& baseline) {
    return spec.Judge(value, baseline);
  };
}

TEST(DetectorTest, Verdicts) {
  const Verdict above = Make<ThresholdSpec>(Side::kAbove, 10, 8);
  const Verdict below = Make<ThresholdSpec>(Side::kBelow, 0.1, 0.15);
  const Verdict drop = Make<RelativeSpec>(Side::kBelow, 0.95, 0.98);
  const Verdict sure_drop = Make<RelativeSpec>(Side::kBelow, 0.95, 0.98, 2.5);
  const Verdict rise = Make<RelativeSpec>(Side::kAbove, 2, 1.5);
  const Verdict z_above = Make<RobustZSpec>(Side::kAbove, 6, 3);
  const Verdict z_below = Make<RobustZSpec>(Side::kBelow, -4, -2);
  const Verdict z_outside = Make<RobustZSpec>(Side::kOutside, 6, 3);
  const std::optional<Baseline> none;
  const std::optional<Baseline> ten = Baseline{.median = 10, .spread = 0.1};
  const std::optional<Baseline> wide = Baseline{.median = 10, .spread = 1};
  const std::optional<Baseline> negative = Baseline{.median = -10, .spread = 1};
  const std::optional<Baseline> zero = Baseline{.median = 0, .spread = 0};
  const struct {
    const char* what;
    const Verdict& judge;
    double value;
    const std::optional<Baseline>& baseline;
    bool breach, clear;
  } kCases[] = {
      {"above", above, 10.5, none, true, false},
      {"at the limit", above, 10, none, false, false},
      {"between the limits", above, 9, none, false, false},
      {"at the clear limit", above, 8, none, false, true},
      {"below", below, 0.09, none, true, false},
      {"clear of below", below, 0.15, none, false, true},
      {"drop", drop, 9.4, ten, true, false},
      {"no drop", drop, 9.6, ten, false, false},
      {"clear of drop", drop, 9.9, ten, false, true},
      {"a drop within the noise", sure_drop, 9.4, wide, false, false},
      {"a drop beyond the noise", sure_drop, 7.4, wide, true, false},
      {"rise", rise, 21, ten, true, false},
      {"clear of rise", rise, 14, ten, false, true},
      {"relative to nothing", drop, 1, none, false, false},
      {"relative to a negative baseline", drop, -20, negative, false, false},
      {"relative to zero", rise, 20, zero, false, false},
      {"z above", z_above, 10.7, ten, true, false},
      {"z clear", z_above, 10.2, ten, false, true},
      {"z below", z_below, 9.5, ten, true, false},
      {"z outside, low", z_outside, 9, ten, true, false},
      {"z outside, high", z_outside, 11, ten, true, false},
      {"z outside, clear", z_outside, 10.1, ten, false, true},
      {"z of a series that was always zero", z_above, 1e-9, zero, true, false},
      {"z of zero among zeros", z_above, 0, zero, false, true},
  };
  for (const auto& test : kCases) {
    const Judgement judgement = test.judge(test.value, test.baseline);
    EXPECT_EQ(judgement.breach, test.breach) << test.what;
    EXPECT_EQ(judgement.clear, test.clear) << test.what;
  }
}

}  // namespace
}  // namespace foreshock::rules
