#include "daemon/query/params.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/status_macros.h"

namespace foreshock::query::internal {
namespace {

absl::StatusOr<int64_t> ParseInteger(absl::string_view name, absl::string_view text, int64_t min,
                                     int64_t max) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter '", name, "' is '", text, "': expected an integer from ", min, " to ", max));
  }
  return value;
}

}  // namespace

absl::StatusOr<Params> Params::Parse(const http::HttpRequest& request,
                                     std::vector<absl::string_view> allowed) {
  for (const auto& entry : request.query) {
    if (std::find(allowed.begin(), allowed.end(), entry.first) != allowed.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("unknown parameter '", entry.first, "'; allowed are ",
                     allowed.empty() ? "none" : absl::StrJoin(allowed, ", ")));
  }
  Params params;
  params.query_ = request.query;
  return params;
}

std::vector<std::string> Params::All(absl::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : query_) {
    if (key == name && !value.empty()) values.push_back(value);
  }
  return values;
}

absl::StatusOr<std::string> Params::Text(absl::string_view name) const {
  const std::vector<std::string> values = All(name);
  if (values.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", name, "' is given ", values.size(), " times: once is allowed"));
  }
  return values.empty() ? std::string() : values[0];
}

absl::StatusOr<std::optional<int64_t>> Params::Integer(absl::string_view name, int64_t min,
                                                       int64_t max) const {
  FORESHOCK_ASSIGN_OR_RETURN(const std::string text, Text(name));
  if (text.empty()) return std::nullopt;
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t value, ParseInteger(name, text, min, max));
  return value;
}

absl::StatusOr<std::vector<int64_t>> Params::Integers(absl::string_view name, int64_t min,
                                                      int64_t max) const {
  std::vector<int64_t> values;
  for (const std::string& list : All(name)) {
    for (const absl::string_view text : absl::StrSplit(list, ',')) {
      FORESHOCK_ASSIGN_OR_RETURN(const int64_t value, ParseInteger(name, text, min, max));
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace foreshock::query::internal
