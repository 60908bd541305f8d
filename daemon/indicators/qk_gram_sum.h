// Row shards of balanced Grams: un-scaled so that they add, balanced again when they are complete.
// Both are multiplications by powers of two, so nothing is rounded but the sums.
#pragma once

#include <cstdint>

#include "daemon/indicators/qk_spectra.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// a = q = 1: [dQ, Q]^T [dQ, Q] and [K, dK]^T [K, dK] of `rows_covered` rows.
model::QkGramSum UnscaledSum(const QkGrams& grams, uint32_t rows_covered);

QkGrams Rebalanced(const model::QkGramSum& sum);

}  // namespace foreshock::indicators
