#include "daemon/notify/pagerduty.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/notify/text.h"

namespace foreshock::notify {
namespace {

using Json = nlohmann::json;

// PagerDuty's own limits.
constexpr size_t kPagerDutySummaryMax = 1024;
constexpr size_t kPagerDutyDetailMax = 4096;  // ours, far below 512 KB for a whole event

std::string EventTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

Json DetailsOf(const v1::Alert& alert) {
  Json details = Json::object();
  for (const auto& [label, text] : Facts(alert, ""))
    details[label] = Shorten(text, kPagerDutyDetailMax);
  details["Alert"] = alert.id();
  return details;
}

Json PayloadOf(const Message& message) {
  const v1::Alert& alert = message.alerts.front()->alert();
  Json details = DetailsOf(alert);
  Json others = Json::array();
  for (size_t i = 1; i < std::min(message.alerts.size(), kAlertsShown); ++i) {
    others.push_back(
        Shorten(AlertLine(message.alerts[i]->alert(), MessageKind::kFiring), kPagerDutyDetailMax));
  }
  if (!others.empty()) details["With it"] = std::move(others);
  if (message.alerts.size() > kAlertsShown) {
    details["And more"] = message.alerts.size() - kAlertsShown;
  }
  return {{"summary", Headline(message, kPagerDutySummaryMax)},
          {"source", alert.run()},
          {"severity", std::string(SeverityName(SeverityOf(alert)))},
          {"timestamp", EventTime(absl::FromUnixNanos(message.alerts[0]->fired_unix_ns()))},
          {"component", alert.fault().empty() ? alert.rule() : alert.fault()},
          {"group", alert.run()},
          {"class", alert.rule()},
          {"custom_details", std::move(details)}};
}

std::string ChangeText(const RunChange& change) {
  std::string text = absl::StrCat("Run ", change.run, " goes on in attempt ", change.attempt);
  if (change.resume_step.has_value()) absl::StrAppend(&text, " from step ", *change.resume_step);
  if (change.last_step.has_value()) {
    absl::StrAppend(&text, "; the one before reached step ", *change.last_step);
  }
  return Shorten(text, kPagerDutySummaryMax);
}

}  // namespace

std::string ChangeUrl(const std::string& url) {
  constexpr absl::string_view kEnd = "/enqueue";
  if (!absl::EndsWith(url, kEnd)) return "";
  return absl::StrCat(url.substr(0, url.size() - kEnd.size()), "/change", kEnd);
}

SendResult PagerDutyNotifier::SendChange(const RunChange& change) {
  Json details = {{"Run", change.run}, {"Attempt", change.attempt}, {"Ranks", change.world_size}};
  if (change.resume_step.has_value()) details["Resumes at step"] = *change.resume_step;
  if (change.last_step.has_value()) details["Last step before"] = *change.last_step;
  Json event = {{"routing_key", options_.routing_key},
                {"payload",
                 {{"summary", ChangeText(change)},
                  {"source", change.run},
                  {"timestamp", EventTime(change.at)},
                  {"custom_details", std::move(details)}}}};
  if (const std::string url = RunUrl(options_.external_url, change.run); !url.empty()) {
    event["links"] = {{{"href", url}, {"text", "Run"}}};
  }
  return ResultOf(poster_->Post(ChangeUrl(options_.url), {"Content-Type: application/json"},
                                event.dump(-1, ' ', false, Json::error_handler_t::replace)),
                  *poster_);
}

SendResult PagerDutyNotifier::Send(const Message& message) {
  Json event = {{"routing_key", options_.routing_key},
                {"dedup_key", absl::StrCat("foreshock/", message.group)}};
  switch (message.kind) {
    case MessageKind::kFiring: {
      event["event_action"] = "trigger";
      event["client"] = "Foreshock";
      event["payload"] = PayloadOf(message);
      const v1::Alert& alert = message.alerts.front()->alert();
      Json links = Json::array();
      if (!alert.runbook().empty()) {
        links.push_back({{"href", alert.runbook()}, {"text", "Runbook"}});
      }
      const std::string url = AlertUrl(options_.external_url, alert);
      if (!url.empty()) {
        links.push_back({{"href", url}, {"text", "Alert"}});
        event["client_url"] = url;
      }
      if (!links.empty()) event["links"] = std::move(links);
      break;
    }
    case MessageKind::kAcknowledged:
      event["event_action"] = "acknowledge";
      break;
    case MessageKind::kResolved:
      event["event_action"] = "resolve";
      if (const v1::Alert& alert = message.alerts.front()->alert();
          !EndReason(message, *message.alerts.front()).empty()) {
        event["payload"] = {{"summary", Headline(message, kPagerDutySummaryMax)},
                            {"source", alert.run()},
                            {"severity", std::string(SeverityName(SeverityOf(alert)))}};
      }
      break;
  }
  return ResultOf(poster_->Post(options_.url, {"Content-Type: application/json"},
                                event.dump(-1, ' ', false, Json::error_handler_t::replace)),
                  *poster_);
}

}  // namespace foreshock::notify
