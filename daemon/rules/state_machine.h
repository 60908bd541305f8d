// The states of one judged series: inactive -> pending -> firing -> inactive. A pure function; the
// step is its only time, and a step without a sample changes nothing.
//
//   MachineState state;
//   switch (Advance(params, step, {.breach = value > limit, .clear = value < clear}, &state)) ...
#pragma once

#include <cstdint>
#include <optional>

namespace foreshock::rules {

// A length in optimizer steps or in samples of the series.
struct Length {
  int64_t count = 0;
  bool in_samples = false;
};

struct MachineParams {
  int hits = 1;                 // breaching samples needed ...
  int of = 1;                   // ... among the newest `of`, 1..64
  Length pending_for = {};      // and at least this long after the first of them
  int clear_samples = 1;        // clear samples in a row that end it ...
  Length keep_firing_for = {};  // ... and at least this long after the last breach
};

enum class Phase : uint8_t { kInactive = 0, kPending = 1, kFiring = 2 };

struct MachineState {
  Phase phase = Phase::kInactive;
  uint64_t hits = 0;         // newest sample in bit 0
  int64_t pending_step = 0;  // the first breach
  int64_t firing_step = 0;
  int64_t last_breach_step = 0;
  int32_t pending_samples = 0;  // since the first breach, that one included
  int32_t samples_since_breach = 0;
  int32_t clear_run = 0;
  int32_t firing_samples = 0;

  template <typename A>
  void serialize(A& archive) {
    archive(phase, hits, pending_step, firing_step, last_breach_step, pending_samples,
            samples_since_breach, clear_run, firing_samples);
  }
  friend bool operator==(const MachineState&, const MachineState&) = default;
};

struct Judgement {
  bool breach = false;
  bool clear = false;                // beyond the clear limit; never together with breach
  std::optional<double> measured{};  // what was compared with the limits, where it was one number
};

enum class Transition : uint8_t {
  kNone,
  kPending,     // the first breach
  kFired,       // from inactive or pending
  kFalseStart,  // pending ended without firing
  kResolved,
};

Transition Advance(const MachineParams& params, int64_t step, Judgement judgement,
                   MachineState* state);

}  // namespace foreshock::rules
