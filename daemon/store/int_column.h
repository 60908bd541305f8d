// A column of integers in few bytes: steps, flags, counts, times and, as integers, the values of a
// chunk. The bytes: docs/formats/chunk.md.
//
//   std::string row;
//   PutColumn(steps, &row);
//   std::vector<int64_t> back(count);
//   if (!TakeColumn(absl::MakeSpan(back), &in)) return false;
//
// Constants, lines and long runs of either cost a few bytes whatever their length; noise costs
// about its entropy. Pure functions; any integers, arithmetic wraps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace foreshock::store {

// Of at least one value.
void PutColumn(absl::Span<const int64_t> values, std::string* out);
// Cuts a column of values.size() off the front of `in`. False: that is not one.
bool TakeColumn(std::string_view* in, absl::Span<int64_t> values);

}  // namespace foreshock::store
