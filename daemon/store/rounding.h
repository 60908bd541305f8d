// Rounds a value to the precision that `store.precision: declared` keeps.
#pragma once

namespace foreshock::store {

// Returns the nearest number with so few bits in its significand as a relative error of at most
// `precision` allows (1e-4: 13 behind the point), of two the even one. With precision 0 it returns
// `value`. `value` is finite and `precision` >= 0. The result is finite and has the sign of
// `value`; it is 0 only if `value` is; rounding it again changes nothing. Subnormals are not
// rounded.
double RoundTo(double precision, double value);

}  // namespace foreshock::store
