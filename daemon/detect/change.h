// What the detectors of this module are told and what they tell. Each sees one series, row by row,
// and holds that it is abnormal from the row at which the evidence suffices until the value is back
// where it was before: the level before the change stays frozen as long.
#pragma once

#include <cmath>
#include <cstdint>

namespace foreshock::detect {

// Over when so much of the size is gone.
inline constexpr double kHealed = 0.5;
// A change counts from so many of the largest that the series has shown before.
inline constexpr double kUnlikeThePast = 1.5;

// The direction that is looked for.
enum class Side : int8_t { kUp = 1, kDown = -1 };

// A change is told when it is large in itself and against the series' own noise.
struct Limits {
  Side side = Side::kUp;
  bool logarithm = false;  // sizes are factors: for positive series with heavy tails
  double size = 0.05;      // a share of the level before; of a fall under a logarithm less than 1
  double noises = 3;       // and so many spreads of the series' own noise
};

// The size in the unit that is judged; `before` is not used where that is a logarithm.
inline double SizeOf(const Limits& limits, double before) {
  if (!limits.logarithm) return limits.size * std::abs(before);
  return limits.side == Side::kUp ? std::log1p(limits.size) : -std::log1p(-limits.size);
}

struct Change {
  bool known = false;       // enough rows are known to judge
  bool lasts = false;       // at the newest row
  int64_t before_step = 0;  // the last step that does not show it
  double before = 0;        // the frozen level before it; the level now while nothing has changed
  double now = 0;           // what is compared with that level
  double limit = 0;  // `now` would have to be here to be told; between `before` and it is well
  double noise = 0;  // one spread, in the unit of the series (log: of its logarithm)

  template <typename A>
  void serialize(A& archive) {
    archive(known, lasts, before_step, before, now, limit, noise);
  }
};

}  // namespace foreshock::detect
