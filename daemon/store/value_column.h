// The values of a chunk as one column: float32 or double bits, whole numbers, or fractions with a
// common denominator (shares of a count), whichever keeps every bit. The bytes:
// docs/formats/chunk.md.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "daemon/model/catalogue.h"

namespace foreshock::store {

// At least one finite value, as a point row of `storage` keeps it (row_codec.h, Kept). One that has
// to be a double makes doubles of all.
void PutValues(Storage storage, absl::Span<const double> values, std::string* out);
// Cuts a column of values.size() off the front of `in`; all are finite. False: that is not one.
bool TakeValues(std::string_view* in, absl::Span<double> values);

}  // namespace foreshock::store
