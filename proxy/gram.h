// The dot products of all pairs of rows.
//
// Compiled once per instruction set and chosen at run time, with the same bits from each: every
// product is a sum in the same order, and nothing is fused. A plan is so the same on every machine.
#pragma once

#include <cstdint>

namespace foreshock::proxy {

// Adds rows * rows^T to `gram`, its lower half with the diagonal only; both row-major, `rows` of
// count x width, `gram` of count x count.
using GramFunction = void (*)(const double* rows, int64_t count, int64_t width, double* gram);

// Those that this processor can run, the portable one first; how many.
int GramFunctions(GramFunction functions[3]);
// The best of them.
GramFunction BestGram();

}  // namespace foreshock::proxy
