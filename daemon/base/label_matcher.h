// A condition on one label, written as in PromQL.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const LabelMatcher matcher, LabelMatcher::Parse("layer=~\"1|2\""));
//   if (matcher.Matches(labels[matcher.label()])) ...
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace re2 {
class RE2;
}

namespace foreshock::base {

// Immutable, cheap to copy, thread-safe.
class LabelMatcher {
 public:
  // LABEL OP VALUE, at most 1024 bytes. LABEL: letters, digits, '_', '.', '-'. OP: = != =~ !~, the
  // last two a regular expression (RE2) for the whole value. VALUE may stand in double quotes, with
  // \" and \\ in it. InvalidArgument says what is wrong and what is allowed.
  static absl::StatusOr<LabelMatcher> Parse(absl::string_view text);

  const std::string& label() const { return label_; }
  const std::string& text() const { return text_; }  // as it was given
  // A label that is not there has the value "".
  bool Matches(absl::string_view value) const;
  // Of a label with several values: = and =~ want one that fits, != and !~ none that does not.
  bool MatchesOneOf(absl::Span<const std::string> values) const;

 private:
  LabelMatcher() = default;
  bool Fits(absl::string_view value) const;

  std::string text_;
  std::string label_;
  bool negated_ = false;
  std::string equal_;  // unless there is a pattern
  std::shared_ptr<const re2::RE2> pattern_;
};

}  // namespace foreshock::base
