#include "daemon/rules/state_machine.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/unit/rules/state_machine_reference.h"

namespace foreshock::rules {
namespace {

// One letter a sample, one step apart: b breach, c clear, . between the limits, _ no sample.
// The answer has one letter a sample: - inactive, p pending, F firing.
std::string Phases(const MachineParams& params, const std::string& samples) {
  MachineState state;
  std::string phases;
  int64_t step = 0;
  for (const char c : samples) {
    ++step;
    if (c != '_') Advance(params, step, {.breach = c == 'b', .clear = c == 'c'}, &state);
    phases += state.phase == Phase::kFiring ? 'F' : state.phase == Phase::kPending ? 'p' : '-';
  }
  return phases;
}

TEST(StateMachineTest, EachSettingHasItsEffect) {
  const struct {
    const char* what;
    MachineParams params;
    const char* samples;
    const char* phases;
  } kCases[] = {
      {"one hit fires at once", {}, ".bc", "-F-"},
      {"3 of 3 needs a row",
       {.hits = 3, .of = 3},
       "bb.bbbc",
       "ppppp"
       "F-"},
      {"2 of 4 tolerates gaps in the row", {.hits = 2, .of = 4}, "b..b", "pppF"},
      {"a false start ends when no hit is left", {.hits = 2, .of = 3}, "b...b", "ppp-p"},
      {"for in steps", {.pending_for = {.count = 3}}, "bbbbb", "pppFF"},
      {"for in samples", {.pending_for = {.count = 3, .in_samples = true}}, "bbbbb", "ppFFF"},
      {"a gap does not reset `for`", {.pending_for = {.count = 4}}, "b___b", "ppppF"},
      {"a gap is no sample",
       {.pending_for = {.count = 3, .in_samples = true}},
       "b___bb",
       "ppppp"
       "F"},
      {"between the limits is not clear", {}, "b...", "FFFF"},
      {"minimum clear length", {.clear_samples = 3}, "bcc.ccc", "FFFFFF-"},
      {"a gap does not resolve", {.clear_samples = 2}, "bc____c", "FFFFFF-"},
      {"keep_firing_for in steps", {.keep_firing_for = {.count = 3}}, "bccc", "FFF-"},
      {"keep_firing_for counts from the last breach",
       {.keep_firing_for = {.count = 3}},
       "bcbccc",
       "FFFFF-"},
      {"keep_firing_for in samples",
       {.keep_firing_for = {.count = 2, .in_samples = true}},
       "b_c_c",
       "FFFF-"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(Phases(test.params, test.samples), test.phases) << test.what;
  }
}

TEST(StateMachineTest, RandomWalksAgreeWithTheReference) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int fired = 0;
  for (int walk = 0; walk < 2000; ++walk) {
    MachineParams params;
    params.of = draw(1, 10) == 1 ? 64 : draw(1, 8);
    params.hits = draw(1, std::min(params.of, 8));
    params.pending_for = {.count = draw(0, 6), .in_samples = draw(0, 1) == 1};
    params.clear_samples = draw(1, 4);
    params.keep_firing_for = {.count = draw(0, 8), .in_samples = draw(0, 1) == 1};
    const int breach_percent = draw(5, 95);
    MachineState state;
    ReferenceMachine reference(params);
    int64_t step = 0;
    for (int i = 0; i < 200; ++i) {
      step += draw(1, 10) == 1 ? draw(2, 50) : 1;
      const bool breach = draw(1, 100) <= breach_percent;
      const Judgement judgement{.breach = breach, .clear = !breach && draw(0, 2) > 0};
      const Transition transition = Advance(params, step, judgement, &state);
      ASSERT_EQ(transition, reference.Push(step, judgement)) << "walk " << walk << " sample " << i;
      ASSERT_EQ(state.phase, reference.phase()) << "walk " << walk << " sample " << i;
      if (transition == Transition::kFired) ++fired;
    }
  }
  EXPECT_GT(fired, 1000);  // the walks do reach what they are to compare
}

}  // namespace
}  // namespace foreshock::rules
