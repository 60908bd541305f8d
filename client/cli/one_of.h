// An option whose value is one of some words, in any case:
//
//   verb.add_option("--state", state, "any or firing")->transform(OneOf(kStates));
//
// The parser's own check would answer a wrong word with its table of names and numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace foreshock::cli {

// `words`: lower case, to the values of an enum.
template <typename Enum>
CLI::Validator OneOf(const std::map<std::string, Enum>& words) {
  return CLI::Validator(
      [words](std::string& text) {
        const auto found = words.find(absl::AsciiStrToLower(text));
        if (found != words.end()) {
          text = absl::StrCat(static_cast<int>(found->second));
          return std::string();
        }
        return absl::StrCat("'", text, "' is none of ",
                            absl::StrJoin(words, ", ", [](std::string* out, const auto& word) {
                              out->append(word.first);
                            }));
      },
      "");
}

}  // namespace foreshock::cli
