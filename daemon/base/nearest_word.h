// What somebody meant who mistyped a word.
//
//   const absl::string_view near = NearestWord("aler", {"alert", "for"});   // "alert"
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace foreshock::base {

// The word of `known` nearest to `word` if `word` looks like a typo of it, else "".
absl::string_view NearestWord(absl::string_view word, absl::Span<const std::string> known);

// "; did you mean 'alert'?", or "".
std::string DidYouMean(absl::string_view word, absl::Span<const std::string> known);

}  // namespace foreshock::base
