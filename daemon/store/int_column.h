// A column of integers in few bytes: steps, flags, counts, times and, as integers, the values of a
// chunk. The bytes: docs/formats/chunk.md.
//
//   std::string row;
//   PutColumn(steps, &row);
//   std::vector<int64_t> back(count);
//   if (!TakeColumn(absl::MakeSpan(back), &in)) return false;
//
// Constants, lines, and long pieces of either take a few bytes whatever their length. Noise takes
// about its entropy. Pure functions for any integers; arithmetic wraps.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace foreshock::store {

// Takes at least one value.
void PutColumn(absl::Span<const int64_t> values, std::string* out);
// Cuts a column of values.size() values off the front of `in`; false: there is none.
bool TakeColumn(absl::string_view* in, absl::Span<int64_t> values);

}  // namespace foreshock::store
