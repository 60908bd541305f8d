// Packs the values of a chunk into one column: float32 or double bits, whole numbers, or fractions
// with a common denominator (shares of a count). It takes a form that keeps every bit. The bytes:
// docs/formats/chunk.md.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/catalogue.h"

namespace foreshock::store {

// Takes at least one finite value, and keeps each as a point row of `storage` does (row_codec.h,
// Kept). One value that has to be a double makes all of them doubles.
void PutValues(model::Storage storage, absl::Span<const double> values, std::string* out);
// Cuts a column of values.size() finite values off the front of `in`; false: there is none.
bool TakeValues(absl::string_view* in, absl::Span<double> values);

}  // namespace foreshock::store
