// The optional lossy form of a value: what `store.precision: declared` keeps of it.
#pragma once

namespace foreshock::store {

// `value` with as few bits of its significand as a relative error of at most `precision` allows
// (1e-4: 13 behind the point), the nearest such number, of two the even one; 0: `value` itself.
// `value` is finite and `precision` >= 0. The result is finite, has its sign, is 0 only if it is,
// and stays itself when it is rounded again. A double's subnormals stay what they are.
double RoundTo(double precision, double value);

}  // namespace foreshock::store
