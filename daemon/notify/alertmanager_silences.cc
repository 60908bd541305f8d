#include "daemon/notify/alertmanager_silences.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::notify {
namespace {

using Json = nlohmann::json;

// Silences whose comment begins so are ours.
constexpr absl::string_view kMark = "Foreshock silence ";
constexpr absl::Duration kSameEnd = absl::Seconds(1);

// The labels that a silence of ours matches; empty: somebody has changed it.
AlertmanagerSilences::Labels LabelsOf(const Json& silence) {
  AlertmanagerSilences::Labels labels;
  for (const Json& matcher : silence.value("matchers", Json::array())) {
    if (!matcher.is_object() || matcher.value("isRegex", Json(false)) != false ||
        matcher.value("isEqual", Json(true)) != true) {
      return {};
    }
    labels[TextOf(matcher, "name")] = TextOf(matcher, "value");
  }
  return labels;
}

}  // namespace

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string AlertmanagerTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

absl::StatusOr<std::string> AlertmanagerSilences::Ask(const HttpCall& call) {
  absl::StatusOr<HttpAnswer> answer = poster_->Do(call);
  FORESHOCK_RETURN_IF_ERROR(ResultOf(answer, *poster_).status);
  return std::move(answer->body);
}

absl::Status AlertmanagerSilences::Read() {
  FORESHOCK_ASSIGN_OR_RETURN(
      const std::string body,
      Ask({.method = "GET",
           .url = absl::StrCat(url_, "/api/v2/silences?filter=evaluation%3D%22daemon%22"),
           .headers = headers_,
           .answer_bytes_max = kListBytesMax}));
  const Json list = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) {
    return absl::FailedPreconditionError("its list of silences is no JSON, or too long");
  }
  held_.clear();
  for (const Json& silence : list) {
    if (!absl::StartsWith(TextOf(silence, "comment"), kMark)) continue;
    if (TextOf(silence.value("status", Json::object()), "state") == "expired") continue;
    Held held{.id = TextOf(silence, "id"), .starts = TextOf(silence, "startsAt")};
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_full, TextOf(silence, "endsAt"), &held.ends, &error)) {
      continue;
    }
    held_.emplace(LabelsOf(silence), std::move(held));
  }
  may_hold_ = !held_.empty();
  return absl::OkStatus();
}

absl::Status AlertmanagerSilences::Raise(const std::map<Labels, v1::Silence>& wanted,
                                         absl::Time now) {
  FORESHOCK_RETURN_IF_ERROR(Read());
  for (const auto& [labels, silence] : wanted) {
    const absl::Time ends = absl::FromUnixNanos(silence.ends_unix_ns());
    Json matchers = Json::array();
    for (const auto& [name, value] : labels) {
      matchers.push_back({{"name", name}, {"value", value}, {"isRegex", false}, {"isEqual", true}});
    }
    Json body = {{"matchers", std::move(matchers)},
                 {"startsAt", AlertmanagerTime(now)},
                 {"endsAt", AlertmanagerTime(ends)},
                 {"createdBy", silence.by()},
                 {"comment", absl::StrCat(kMark, silence.id(), silence.why().empty() ? "" : ": ",
                                          silence.why())}};
    if (const auto held = held_.find(labels); held != held_.end()) {
      if (absl::AbsDuration(held->second.ends - ends) < kSameEnd) continue;
      body["id"] = held->second.id;
      body["startsAt"] = held->second.starts;
    }
    may_hold_ = true;
    FORESHOCK_RETURN_IF_ERROR(
        Ask({.url = absl::StrCat(url_, "/api/v2/silences"),
             .headers = headers_,
             .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)})
            .status());
  }
  return absl::OkStatus();
}

absl::Status AlertmanagerSilences::Lift(const std::vector<Labels>& alerts) {
  for (const Labels& labels : alerts) {
    const auto [begin, end] = held_.equal_range(labels);
    for (auto it = begin; it != end; it = held_.erase(it)) {
      FORESHOCK_RETURN_IF_ERROR(Ask({.method = "DELETE",
                                     .url = absl::StrCat(url_, "/api/v2/silence/", it->second.id),
                                     .headers = headers_})
                                    .status());
    }
  }
  return absl::OkStatus();
}

}  // namespace foreshock::notify
