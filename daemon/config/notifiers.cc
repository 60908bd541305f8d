#include "daemon/config/notifiers.h"

#include <array>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/config/receiver.h"
#include "daemon/notify/pagerduty.h"

namespace foreshock::config {
namespace {

constexpr std::array<std::pair<absl::string_view, notify::NotifierType>, 5> kTypes = {{
    {"log", notify::NotifierType::kLog},
    {"alertmanager", notify::NotifierType::kAlertmanager},
    {"pagerduty", notify::NotifierType::kPagerDuty},
    {"webhook", notify::NotifierType::kWebhook},
    {"slack", notify::NotifierType::kSlack},
}};
constexpr int64_t kMessagesPerHour = 60;  // of those that interrupt people

notify::NotifierType TypeNamed(absl::string_view name) {
  for (const auto& [word, type] : kTypes) {
    if (word == name) return type;
  }
  return notify::NotifierType::kLog;
}

absl::string_view NameOfType(notify::NotifierType type) {
  for (const auto& [word, known] : kTypes) {
    if (known == type) return word;
  }
  return "";
}

notify::NotifierOptions DefaultsOf(notify::NotifierType type) {
  notify::NotifierOptions options;
  options.type = type;
  options.name = std::string(NameOfType(type));
  switch (type) {
    case notify::NotifierType::kLog:
      break;
    case notify::NotifierType::kAlertmanager:
      options.severity_min = notify::Severity::kWarning;
      options.resend = absl::Minutes(1);
      break;
    case notify::NotifierType::kPagerDuty:
      options.severity_min = notify::Severity::kCritical;
      options.group_wait = absl::Seconds(5);
      options.messages_per_hour_max = kMessagesPerHour;
      break;
    case notify::NotifierType::kWebhook:
      options.severity_min = notify::Severity::kWarning;
      options.group_wait = absl::Seconds(5);
      break;
    case notify::NotifierType::kSlack:
      options.severity_min = notify::Severity::kWarning;
      options.group_wait = absl::Seconds(5);
      options.messages_per_hour_max = kMessagesPerHour;
      break;
  }
  return options;
}

// On where it is known where they go.
void ReadChangeEvents(const yaml::YamlNode& node, notify::NotifierOptions* options) {
  const bool known = options->urls.empty() || !notify::ChangeUrl(options->urls.front()).empty();
  options->change_events = node.Bool(known);
  if (options->change_events && !known) {
    node.Error("change events go to .../change/enqueue, but `url` does not end in /enqueue");
  }
}

// What only some types have; a key of another type is an unknown one.
void ReadReceiver(const yaml::YamlNode& node, notify::NotifierOptions* options) {
  if (options->type == notify::NotifierType::kLog) return;
  ReadHttpClient(node, &options->http);
  switch (options->type) {
    case notify::NotifierType::kLog:
      break;
    case notify::NotifierType::kAlertmanager: {
      const yaml::YamlNode urls = node.Require("urls");
      for (const yaml::YamlNode& url : urls.Items()) options->urls.push_back(ReadPlainUrl(url));
      if (urls.present() && options->urls.empty()) {
        urls.Error("there is no URL; name every replica of Alertmanager");
      }
      options->resend =
          node.Get("resend").Duration({absl::Seconds(1), absl::Hours(1)}, options->resend);
      options->bearer_token = ReadSecretSource(node, "bearer_token");
      break;
    }
    case notify::NotifierType::kPagerDuty:
      if (const yaml::YamlNode url = node.Get("url"); url.present()) {
        options->urls.push_back(ReadPlainUrl(url));
      }
      ReadChangeEvents(node.Get("change_events"), options);
      options->routing_key = ReadSecretSource(node, "routing_key");
      if (!options->routing_key.given()) {
        node.Error("pagerduty needs routing_key_file or routing_key_env");
      }
      break;
    case notify::NotifierType::kWebhook: {
      const yaml::YamlNode url = node.Get("url");
      options->url = ReadSecretSource(node, "url");
      if (url.present()) options->urls.push_back(ReadPlainUrl(url));
      if (url.present() == options->url.given()) {
        node.Error("webhook needs one of url, url_file and url_env");
      }
      options->hmac_secret = ReadSecretSource(node, "hmac_secret");
      options->template_file = node.Get("template_file").String();
      const yaml::YamlNode content_type = node.Get("content_type");
      options->content_type = content_type.String(options->content_type);
      if (content_type.present() &&
          (options->template_file.empty() || !absl::StrContains(options->content_type, "/") ||
           absl::StrContains(options->content_type, "\n"))) {
        content_type.Error(
            "a content_type is one line such as text/plain, and belongs to a template_file");
      }
      options->bearer_token = ReadSecretSource(node, "bearer_token");
      break;
    }
    case notify::NotifierType::kSlack:
      options->url = ReadSecretSource(node, "url");
      if (!options->url.given()) node.Error("slack needs url_file or url_env");
      break;
  }
}

notify::NotifierOptions ReadNotifier(const yaml::YamlNode& node, std::set<std::string>* names) {
  std::vector<absl::string_view> types;
  for (const auto& [word, type] : kTypes) types.push_back(word);
  notify::NotifierOptions options = DefaultsOf(TypeNamed(node.Require("type").Word(types)));
  options.name = ReadReceiverName(node.Get("name"), "a notifier", options.name, names);
  const std::string severity =
      node.Get("severity_min")
          .Word({"info", "warning", "critical"}, notify::SeverityName(options.severity_min));
  options.severity_min = notify::ParseSeverity(severity).value_or(options.severity_min);
  for (const yaml::YamlNode& text : node.Get("match").Items()) {
    const absl::StatusOr<base::LabelMatcher> matcher = base::LabelMatcher::Parse(text.String());
    if (matcher.ok()) {
      options.match.push_back(*matcher);
    } else {
      text.Error(matcher.status().message());
    }
  }
  if (options.type != notify::NotifierType::kLog &&
      options.type != notify::NotifierType::kAlertmanager) {
    options.group_wait =
        node.Get("group_wait").Duration({absl::ZeroDuration(), absl::Hours(1)}, options.group_wait);
    options.messages_per_hour_max =
        node.Get("messages_per_hour_max").Int({0, 100'000}, options.messages_per_hour_max);
  }
  ReadReceiver(node, &options);
  return options;
}

}  // namespace

std::vector<notify::NotifierOptions> ReadNotifiers(const yaml::YamlNode& list) {
  if (!list.present()) return {DefaultsOf(notify::NotifierType::kLog)};
  std::vector<notify::NotifierOptions> notifiers;
  std::set<std::string> names;
  for (const yaml::YamlNode& item : list.Items()) notifiers.push_back(ReadNotifier(item, &names));
  return notifiers;
}

std::string FormatNotifiers(const std::vector<notify::NotifierOptions>& notifiers) {
  if (notifiers.empty()) return " []";
  std::string text;
  for (const notify::NotifierOptions& options : notifiers) {
    ReceiverText item;
    item.Add("type", NameOfType(options.type));
    item.Add("name", options.name);
    item.Add("severity_min", notify::SeverityName(options.severity_min));
    std::vector<std::string> match;
    for (const base::LabelMatcher& matcher : options.match) match.push_back(matcher.text());
    item.AddList("match", match);
    if (options.type == notify::NotifierType::kAlertmanager) {
      item.AddList("urls", options.urls);
      item.Add("resend", absl::FormatDuration(options.resend));
    } else if (options.type != notify::NotifierType::kLog) {
      item.Add("group_wait", absl::FormatDuration(options.group_wait));
      item.Add("messages_per_hour_max", absl::StrCat(options.messages_per_hour_max));
      if (!options.urls.empty()) item.AddQuoted("url", options.urls.front());
    }
    if (options.type != notify::NotifierType::kLog) {
      item.AddSource("url", options.url);
      if (options.type == notify::NotifierType::kPagerDuty) {
        item.Add("change_events", options.change_events ? "true" : "false");
      }
      item.AddSource("routing_key", options.routing_key);
      item.AddSource("hmac_secret", options.hmac_secret);
      item.AddQuoted("template_file", options.template_file);
      if (!options.template_file.empty()) item.AddQuoted("content_type", options.content_type);
      item.AddSource("bearer_token", options.bearer_token);
      item.AddHttpClient(options.http);
    }
    text += std::move(item).Take();
  }
  return text;
}

}  // namespace foreshock::config
