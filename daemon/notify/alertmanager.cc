#include "daemon/notify/alertmanager.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/log.h"
#include "daemon/notify/delivery.h"
#include "daemon/notify/text.h"

namespace foreshock::notify {
namespace {

using Json = nlohmann::json;
using Labels = AlertmanagerSilences::Labels;

// Alertmanager takes an alert for over after so many intervals in which nobody shows it.
constexpr int kEndsAfterResends = 4;

// The expressions of exported rules name it, and Prometheus puts the expression into generatorURL.
constexpr absl::string_view kExportedMetric = "foreshock_alert_firing";
constexpr int kLookAfterResends = 5;

// Alertmanager knows an alert by its labels, so they never change while the alert fires. All else
// is in the annotations.
Labels LabelsOf(const v1::Alert& alert, const std::string& severity) {
  Labels labels;
  for (const auto& [name, value] : alert.labels()) {
    if (name != "flapping" && !value.empty()) labels[name] = value;
  }
  labels["alertname"] = alert.rule();
  labels["run"] = alert.run();
  labels["severity"] = severity;
  if (!alert.fault().empty()) labels["fault"] = alert.fault();
  labels["evaluation"] = "daemon";  // the exported Prometheus rules say "central"
  return labels;
}

Json AnnotationsOf(const v1::Alert& alert, const std::string& end_reason,
                   const std::string& external_url) {
  Json annotations = Json::object();
  static const std::map<std::string, std::string> kNames = {
      {"What", "summary"},
      {"Where", "where"},
      {"When", "when"},
      {"Value", "value"},
      {"What to do", "description"},
      {"Last healthy step", "last_healthy_step"},
      {"Runbook", "runbook_url"},
      {"More", "alert_url"}};
  for (const auto& [label, text] : Facts(alert, external_url)) {
    if (const auto name = kNames.find(label); name != kNames.end()) {
      annotations[name->second] = text;
    }
  }
  annotations["alert_id"] = alert.id();
  if (!end_reason.empty()) annotations["ended"] = end_reason;
  return annotations;
}

std::vector<std::string> HeadersOf(const std::string& bearer_token) {
  std::vector<std::string> headers = {"Content-Type: application/json"};
  if (!bearer_token.empty()) {
    headers.push_back(absl::StrCat("Authorization: Bearer ", bearer_token));
  }
  return headers;
}

}  // namespace

// By labels. Among alerts of the same labels one that fires goes first, then the newest.
struct AlertmanagerNotifier::Entry {
  bool firing = false;
  int64_t started_unix_ns = 0;
  Json json{};
};

struct AlertmanagerNotifier::Shown {
  std::map<Labels, Entry> alerts{};
  std::map<Labels, v1::Silence> silenced{};
};

AlertmanagerNotifier::AlertmanagerNotifier(Options options, std::unique_ptr<HttpPoster> poster)
    : options_(std::move(options)),
      poster_(std::move(poster)),
      url_(absl::StripSuffix(options_.url, "/")),
      headers_(HeadersOf(options_.bearer_token)),
      silences_(url_, headers_, poster_.get()) {}

AlertmanagerNotifier::Shown AlertmanagerNotifier::ShownOf(const Message& message) const {
  Shown shown;
  const auto add = [&](const model::AlertRow& row, const std::string& severity, bool firing,
                       absl::Time ends) {
    Labels labels = LabelsOf(row.alert(), severity);
    const auto silence = message.silences.find(row.alert().id());
    if (silence != message.silences.end()) shown.silenced[labels] = silence->second;
    Entry& entry = shown.alerts[labels];
    const std::pair<bool, int64_t> now{entry.firing, entry.started_unix_ns};
    if (now > std::pair<bool, int64_t>{firing, row.fired_unix_ns()}) return;
    entry.firing = firing;
    entry.started_unix_ns = row.fired_unix_ns();
    const absl::Time started = absl::FromUnixNanos(row.fired_unix_ns());
    entry.json = {
        {"labels", std::move(labels)},
        {"annotations", AnnotationsOf(row.alert(), EndReason(message, row), options_.external_url)},
        {"startsAt", AlertmanagerTime(started)},
        {"endsAt", AlertmanagerTime(std::max(started, ends))}};
    const std::string url = AlertUrl(options_.external_url, row.alert());
    if (!url.empty()) entry.json["generatorURL"] = url;
  };
  for (const auto& row : message.alerts) {
    const v1::Alert& alert = row->alert();
    const std::optional<absl::Time> over = OverSince(message, *row);
    add(*row, alert.severity(), /*firing=*/!over.has_value(),
        over.has_value() ? std::min(message.now, *over)
                         : message.now + kEndsAfterResends * options_.resend);
    // The severity is a label, so the alert of the lower severity ended when it rose.
    const model::Delivery* const delivery = FindDelivery(*row, options_.notifier);
    for (int i = 0; delivery != nullptr && i < delivery->told_size(); ++i) {
      if (delivery->told(i).severity() == alert.severity()) continue;
      const absl::Time rose = i + 1 < delivery->told_size()
                                  ? absl::FromUnixNanos(delivery->told(i + 1).time_unix_ns())
                                  : message.now;
      if (message.now < rose + kEndRepeated) {
        add(*row, delivery->told(i).severity(), /*firing=*/false, rose);
      }
    }
  }
  return shown;
}

SendResult AlertmanagerNotifier::Send(const Message& message) {
  const Shown shown = ShownOf(message);
  absl::Status silenced;
  const bool silences = !shown.silenced.empty() || silences_.may_hold();
  if (silences) silenced = silences_.Raise(shown.silenced, message.now);
  if (message.now >= looked_at_ + kLookAfterResends * options_.resend)
    LookForExportedRules(shown, message.now);
  Json body = Json::array();
  std::vector<Labels> loud;
  for (const auto& [labels, entry] : shown.alerts) {
    body.push_back(entry.json);
    if (!shown.silenced.contains(labels)) loud.push_back(labels);
  }
  // The alerts are shown though silences fail. Left out, they would be taken for over.
  const SendResult result =
      ResultOf(poster_->Post(absl::StrCat(url_, "/api/v2/alerts"), headers_,
                             body.dump(-1, ' ', false, Json::error_handler_t::replace)),
               *poster_);
  if (result.outcome != SendResult::Outcome::kTaken) return result;
  // After the alerts: Alertmanager must know their ends before it may speak of them.
  if (silences) silenced.Update(silences_.Lift(loud));
  Note("silences_refused", !silenced.ok(),
       absl::StrCat("Alertmanager does not take the daemon's silences; it may page of silenced "
                    "alerts, or be silent of others: ",
                    silenced.message()));
  return result;
}

// Before the alerts are shown: the newer of two that have the same labels is all that can be seen.
void AlertmanagerNotifier::LookForExportedRules(const Shown& shown, absl::Time now) {
  const absl::StatusOr<HttpAnswer> answer =
      poster_->Do({.method = "GET",
                   .url = absl::StrCat(url_, "/api/v2/alerts?filter=evaluation%3D%22daemon%22"),
                   .headers = headers_,
                   .answer_bytes_max = kListBytesMax});
  if (!ResultOf(answer, *poster_).status.ok()) return;  // showing the alerts says more
  const Json list = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return;
  std::set<std::pair<std::string, std::string>> ours;
  for (const auto& [labels, entry] : shown.alerts) {
    ours.emplace(labels.at("run"), labels.at("alertname"));
  }
  looked_at_ = now;
  const bool twice = std::any_of(list.begin(), list.end(), [&ours](const Json& alert) {
    if (!absl::StrContains(TextOf(alert, "generatorURL"), kExportedMetric)) return false;
    const auto labels = alert.find("labels");
    return labels != alert.end() &&
           ours.contains({TextOf(*labels, "run"), TextOf(*labels, "alertname")});
  });
  Note("told_twice", twice,
       "Prometheus tells Alertmanager of the same alerts, by exported rules; choose one of the two "
       "ways (docs/deployment.md)");
}

void AlertmanagerNotifier::Note(const std::string& trouble, bool there, const std::string& why) {
  if (!there) {
    troubles_.erase(trouble);
    return;
  }
  troubles_.insert(trouble);
  base::LogEvery(absl::StrCat("notify.", trouble, ".", url_), base::LogLevel::kWarning, "notify",
                 why, {{"notifier", options_.notifier}});
}

}  // namespace foreshock::notify
