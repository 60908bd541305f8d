// Conditions on the labels of an alert, as Alertmanager writes them: run=exp-42, run=~"exp-.*",
// severity!=info, fault!~"(router|load).*". For routes and silences.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "foreshock/v1/query.pb.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace foreshock {

// Immutable; cheap to copy.
class Matcher {
 public:
  // NAME followed by =, !=, =~ or !~ and a value, with or without double quotes. Regular
  // expressions are RE2's and match the whole value. InvalidArgument says what is allowed.
  static absl::StatusOr<Matcher> Parse(absl::string_view text);

  // The labels of an alert are run, rule, severity, fault, indicator, attempt, layer, head, rank,
  // unit, id, and those of its rule. One that an alert does not have is empty. An alert in several
  // layers matches `layer=2` when one of them is 2, and `layer!=2` when none is.
  bool Matches(const v1::Alert& alert) const;

  const std::string& text() const { return text_; }  // as it was given

 private:
  std::string text_;
  std::string label_;
  std::string value_;
  std::shared_ptr<const re2::RE2> regex_;  // null: equality
  bool negated_ = false;
};

// Every one must match; none: all alerts do.
bool MatchesAll(const std::vector<Matcher>& matchers, const v1::Alert& alert);

}  // namespace foreshock
