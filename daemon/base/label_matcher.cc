#include "daemon/base/label_matcher.h"

#include <re2/re2.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace foreshock::base {
namespace {

// A pattern's compiled form; larger ones are refused.
constexpr int64_t kPatternBytesMax = 1 << 20;
constexpr size_t kTextBytesMax = 1024;

absl::Status BadMatcher(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("matcher '", text, "': ", why,
                   "; allowed is LABEL=VALUE, LABEL!=VALUE, LABEL=~REGEX or LABEL!~REGEX, the "
                   "value in double quotes or bare"));
}

bool IsLabelCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
}

// What stands between the quotes; unset if the text is not one quoted value.
std::optional<std::string> Unquote(absl::string_view text) {
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1 == text.size() ? std::optional(value) : std::nullopt;
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\')) ++i;
    value.push_back(text[i]);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<LabelMatcher> LabelMatcher::Parse(absl::string_view text) {
  if (text.size() > kTextBytesMax) {
    return BadMatcher(text.substr(0, 60), absl::StrCat("longer than ", kTextBytesMax, " bytes"));
  }
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  LabelMatcher matcher;
  matcher.text_ = std::string(text);
  size_t length = 0;
  while (length < rest.size() && IsLabelCharacter(rest[length])) ++length;
  if (length == 0) return BadMatcher(text, "it begins with no label");
  matcher.label_ = std::string(rest.substr(0, length));
  rest = absl::StripLeadingAsciiWhitespace(rest.substr(length));

  bool is_pattern = false;
  if (absl::ConsumePrefix(&rest, "=~")) {
    is_pattern = true;
  } else if (absl::ConsumePrefix(&rest, "!~")) {
    is_pattern = matcher.negated_ = true;
  } else if (absl::ConsumePrefix(&rest, "!=")) {
    matcher.negated_ = true;
  } else if (!absl::ConsumePrefix(&rest, "=")) {
    return BadMatcher(text, absl::StrCat("no operator after '", matcher.label_, "'"));
  }

  rest = absl::StripLeadingAsciiWhitespace(rest);
  std::string value(rest);
  if (!rest.empty() && rest.front() == '"') {
    std::optional<std::string> unquoted = Unquote(rest);
    if (!unquoted.has_value()) return BadMatcher(text, "the quotes do not enclose the value");
    value = *std::move(unquoted);
  }
  if (!is_pattern) {
    matcher.equal_ = std::move(value);
    return matcher;
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternBytesMax);
  matcher.pattern_ = std::make_shared<const re2::RE2>(value, options);
  if (!matcher.pattern_->ok()) return BadMatcher(text, matcher.pattern_->error());
  return matcher;
}

bool LabelMatcher::Fits(absl::string_view value) const {
  if (pattern_ == nullptr) return value == equal_;
  return re2::RE2::FullMatch(re2::StringPiece(value.data(), value.size()), *pattern_);
}

bool LabelMatcher::Matches(absl::string_view value) const { return Fits(value) != negated_; }

bool LabelMatcher::MatchesOneOf(absl::Span<const std::string> values) const {
  const bool any = std::any_of(values.begin(), values.end(),
                               [this](const std::string& value) { return Fits(value); });
  return any != negated_;
}

}  // namespace foreshock::base
