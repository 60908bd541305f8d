// An option whose value is a span of time: 30m, 2h, 1h30m, 7d.
//
//   verb.add_option_function<std::string>("--for", [](const std::string&) {})
//       ->check(ReadsSpan(&options->duration));
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace foreshock::cli {

// Puts the span, above zero, into `span`, which outlives the parser.
inline CLI::Validator ReadsSpan(absl::Duration* span) {
  return CLI::Validator(
      [span](std::string& text) {
        const bool days = !text.empty() && text.back() == 'd';
        const std::string hours = days ? absl::StrCat(text.substr(0, text.size() - 1), "h") : text;
        if (!absl::ParseDuration(hours, span) || *span <= absl::ZeroDuration()) {
          return absl::StrCat("'", text, "' is no duration; allowed are 30m, 2h, 1h30m, 7d");
        }
        if (days) *span *= 24;
        return std::string();
      },
      "");
}

}  // namespace foreshock::cli
