#include "daemon/notify/matcher.h"

#include <re2/re2.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace foreshock {
namespace {

constexpr size_t kMatcherBytesMax = 1024;
constexpr int64_t kRegexBytesMax = 1 << 20;

absl::Status BadMatcher(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("matcher '", text, "': ", what,
                   "; allowed are label=value, label!=value, label=~regex and label!~regex"));
}

std::vector<std::string> LabelValues(const v1::Alert& alert, const std::string& label) {
  if (label == "run") return {alert.run()};
  if (label == "rule") return {alert.rule()};
  if (label == "severity") return {alert.severity()};
  if (label == "fault") return {alert.fault()};
  if (label == "indicator") return {alert.indicator()};
  if (label == "id") return {alert.id()};
  if (label == "attempt") return {absl::StrCat(alert.attempt())};
  if (label == "unit") return {alert.unit_name()};
  if (label == "head") return {alert.has_head() ? absl::StrCat(alert.head()) : ""};
  if (label == "rank") return {alert.has_rank() ? absl::StrCat(alert.rank()) : ""};
  if (label == "layer") {
    std::vector<std::string> layers;
    for (const uint32_t layer : alert.layers()) layers.push_back(absl::StrCat(layer));
    if (layers.empty()) layers.emplace_back();
    return layers;
  }
  const auto own = alert.labels().find(label);
  return {own == alert.labels().end() ? "" : own->second};
}

}  // namespace

absl::StatusOr<Matcher> Matcher::Parse(absl::string_view text) {
  if (text.size() > kMatcherBytesMax) {
    return BadMatcher(text.substr(0, 60), absl::StrCat("more than ", kMatcherBytesMax, " bytes"));
  }
  const size_t sign = text.find_first_of("=!");
  if (sign == absl::string_view::npos) return BadMatcher(text, "there is no = in it");
  Matcher matcher;
  matcher.text_ = std::string(text);
  matcher.label_ = std::string(absl::StripAsciiWhitespace(text.substr(0, sign)));
  const bool name_good =
      !matcher.label_.empty() &&
      std::all_of(matcher.label_.begin(), matcher.label_.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
      });
  if (!name_good) return BadMatcher(text, "the label's name is empty or has other characters");
  absl::string_view rest = text.substr(sign);
  matcher.negated_ = rest[0] == '!';
  if (matcher.negated_) rest.remove_prefix(1);
  if (rest.empty() || (rest[0] != '=' && rest[0] != '~')) return BadMatcher(text, "a lone '!'");
  bool regex = rest[0] == '~';
  rest.remove_prefix(1);
  if (!regex && !matcher.negated_ && !rest.empty() && rest[0] == '~') {
    regex = true;
    rest.remove_prefix(1);
  }
  if (regex && text[sign] == '~') return BadMatcher(text, "a lone '~'");
  rest = absl::StripAsciiWhitespace(rest);
  if (rest.size() >= 2 && rest.front() == '"' && rest.back() == '"') {
    rest = rest.substr(1, rest.size() - 2);
  }
  matcher.value_ = std::string(rest);
  if (!regex) return matcher;
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kRegexBytesMax);
  auto compiled = std::make_shared<RE2>(matcher.value_, options);
  if (!compiled->ok()) return BadMatcher(text, compiled->error());
  matcher.regex_ = std::move(compiled);
  return matcher;
}

bool Matcher::Matches(const v1::Alert& alert) const {
  const std::vector<std::string> values = LabelValues(alert, label_);
  const bool any = std::any_of(values.begin(), values.end(), [this](const std::string& value) {
    return regex_ != nullptr ? RE2::FullMatch(value, *regex_) : value == value_;
  });
  return any != negated_;
}

bool MatchesAll(const std::vector<Matcher>& matchers, const v1::Alert& alert) {
  return std::all_of(matchers.begin(), matchers.end(),
                     [&alert](const Matcher& matcher) { return matcher.Matches(alert); });
}

}  // namespace foreshock
