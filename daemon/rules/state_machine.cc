#include "daemon/rules/state_machine.h"

#include <bit>

namespace foreshock::rules {
namespace {

bool Reached(const Length& length, int64_t steps, int64_t samples) {
  return (length.in_samples ? samples : steps) >= length.count;
}

Transition AdvanceFiring(const MachineParams& params, int64_t step, Judgement judgement,
                         MachineState* state) {
  ++state->firing_samples;
  state->clear_run = judgement.clear ? state->clear_run + 1 : 0;
  if (judgement.breach) {
    state->last_breach_step = step;
    state->samples_since_breach = 0;
  } else {
    ++state->samples_since_breach;
  }
  const bool resolved =
      state->clear_run >= params.clear_samples &&
      Reached(params.keep_firing_for, step - state->last_breach_step, state->samples_since_breach);
  if (!resolved) return Transition::kNone;
  *state = MachineState();
  return Transition::kResolved;
}

}  // namespace

Transition Advance(const MachineParams& params, int64_t step, Judgement judgement,
                   MachineState* state) {
  if (state->phase == Phase::kFiring) return AdvanceFiring(params, step, judgement, state);

  const bool starts = state->phase == Phase::kInactive;
  if (starts && !judgement.breach) return Transition::kNone;
  if (starts) {
    *state = MachineState();
    state->phase = Phase::kPending;
    state->pending_step = step;
  }
  const uint64_t window = params.of >= 64 ? ~uint64_t{0} : (uint64_t{1} << params.of) - 1;
  state->hits = ((state->hits << 1) | (judgement.breach ? 1u : 0u)) & window;
  ++state->pending_samples;
  if (judgement.breach) state->last_breach_step = step;
  if (state->hits == 0) {
    *state = MachineState();
    return Transition::kFalseStart;
  }
  if (std::popcount(state->hits) >= params.hits &&
      Reached(params.pending_for, step - state->pending_step, state->pending_samples)) {
    state->phase = Phase::kFiring;
    state->firing_step = step;
    return Transition::kFired;
  }
  return starts ? Transition::kPending : Transition::kNone;
}

}  // namespace foreshock::rules
