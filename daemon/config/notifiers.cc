#include "daemon/config/notifiers.h"

#include <array>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "daemon/notify/http_client.h"

namespace foreshock {
namespace {

constexpr std::array<std::pair<absl::string_view, NotifierType>, 5> kTypes = {{
    {"log", NotifierType::kLog},
    {"alertmanager", NotifierType::kAlertmanager},
    {"pagerduty", NotifierType::kPagerDuty},
    {"webhook", NotifierType::kWebhook},
    {"slack", NotifierType::kSlack},
}};
constexpr size_t kNotifierNameMax = 64;
constexpr int64_t kMessagesPerHour = 60;  // of those that interrupt people

NotifierType TypeNamed(absl::string_view name) {
  for (const auto& [word, type] : kTypes) {
    if (word == name) return type;
  }
  return NotifierType::kLog;
}

absl::string_view NameOfType(NotifierType type) {
  for (const auto& [word, known] : kTypes) {
    if (known == type) return word;
  }
  return "";
}

NotifierOptions DefaultsOf(NotifierType type) {
  NotifierOptions options;
  options.type = type;
  options.name = std::string(NameOfType(type));
  switch (type) {
    case NotifierType::kLog:
      break;
    case NotifierType::kAlertmanager:
      options.severity_min = Severity::kWarning;
      options.resend = absl::Minutes(1);
      break;
    case NotifierType::kPagerDuty:
      options.severity_min = Severity::kCritical;
      options.group_wait = absl::Seconds(5);
      options.messages_per_hour_max = kMessagesPerHour;
      break;
    case NotifierType::kWebhook:
      options.severity_min = Severity::kWarning;
      options.group_wait = absl::Seconds(5);
      break;
    case NotifierType::kSlack:
      options.severity_min = Severity::kWarning;
      options.group_wait = absl::Seconds(5);
      options.messages_per_hour_max = kMessagesPerHour;
      break;
  }
  return options;
}

void ReadName(const YamlNode& node, std::set<std::string>* names, NotifierOptions* options) {
  options->name = node.String(options->name);
  bool good = !options->name.empty() && options->name.size() <= kNotifierNameMax;
  for (const char c : options->name) {
    good = good && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_');
  }
  if (!good) {
    node.Error(absl::StrCat("a notifier's name has 1 to ", kNotifierNameMax,
                            " letters, digits, '-' or '_'"));
  } else if (!names->insert(options->name).second) {
    node.Error(absl::StrCat("two notifiers are called '", options->name, "'"));
  }
}

void ReadPlainUrl(const YamlNode& node, const std::string& url, NotifierOptions* options) {
  if (const std::string wrong = CheckPlainUrl(url); !wrong.empty()) {
    // The URL itself may hold what nobody is to see.
    node.Error(absl::StrCat("this URL is ", wrong,
                            "; allowed is http(s)://HOST[:PORT][/PATH]; one with a secret in it "
                            "belongs into a file (url_file)"));
  }
  options->urls.push_back(url);
}

SecretSource ReadSource(const YamlNode& node, absl::string_view key) {
  SecretSource source;
  const YamlNode env = node.Get(absl::StrCat(key, "_env"));
  source.file = node.Get(absl::StrCat(key, "_file")).String();
  source.env = env.String();
  if (!source.file.empty() && !source.env.empty()) {
    env.Error(absl::StrCat("give ", key, "_file or ", key, "_env, not both"));
  }
  return source;
}

void ReadRequest(const YamlNode& node, NotifierOptions* options) {
  options->ca_file = node.Get("ca_file").String();
  const YamlNode proxy = node.Get("proxy");
  options->proxy = proxy.String();
  if (const std::string wrong = proxy.present() ? CheckPlainUrl(options->proxy) : "";
      !wrong.empty()) {
    proxy.Error(absl::StrCat("this URL is ", wrong, "; allowed is http(s)://HOST:PORT"));
  }
  options->connect_timeout =
      node.Get("connect_timeout")
          .Duration({absl::Milliseconds(10), absl::Minutes(5)}, options->connect_timeout);
  options->timeout =
      node.Get("timeout").Duration({absl::Milliseconds(10), absl::Minutes(5)}, options->timeout);
}

// What only some types have; a key of another type is an unknown one.
void ReadReceiver(const YamlNode& node, NotifierOptions* options) {
  if (options->type == NotifierType::kLog) return;
  ReadRequest(node, options);
  switch (options->type) {
    case NotifierType::kLog:
      break;
    case NotifierType::kAlertmanager: {
      const YamlNode urls = node.Require("urls");
      for (const YamlNode& url : urls.Items()) ReadPlainUrl(url, url.String(), options);
      if (urls.present() && options->urls.empty()) {
        urls.Error("there is no URL; name every replica of Alertmanager");
      }
      options->resend =
          node.Get("resend").Duration({absl::Seconds(1), absl::Hours(1)}, options->resend);
      options->bearer_token = ReadSource(node, "bearer_token");
      break;
    }
    case NotifierType::kPagerDuty:
      if (const YamlNode url = node.Get("url"); url.present()) {
        ReadPlainUrl(url, url.String(), options);
      }
      options->routing_key = ReadSource(node, "routing_key");
      if (!options->routing_key.given()) {
        node.Error("pagerduty needs routing_key_file or routing_key_env");
      }
      break;
    case NotifierType::kWebhook: {
      const YamlNode url = node.Get("url");
      options->url = ReadSource(node, "url");
      if (url.present()) ReadPlainUrl(url, url.String(), options);
      if (url.present() == options->url.given()) {
        node.Error("webhook needs one of url, url_file and url_env");
      }
      options->hmac_secret = ReadSource(node, "hmac_secret");
      options->bearer_token = ReadSource(node, "bearer_token");
      break;
    }
    case NotifierType::kSlack:
      options->url = ReadSource(node, "url");
      if (!options->url.given()) node.Error("slack needs url_file or url_env");
      break;
  }
}

NotifierOptions ReadNotifier(const YamlNode& node, std::set<std::string>* names) {
  std::vector<absl::string_view> types;
  for (const auto& [word, type] : kTypes) types.push_back(word);
  NotifierOptions options = DefaultsOf(TypeNamed(node.Require("type").Word(types)));
  ReadName(node.Get("name"), names, &options);
  const std::string severity =
      node.Get("severity_min")
          .Word({"info", "warning", "critical"}, SeverityName(options.severity_min));
  options.severity_min = ParseSeverity(severity).value_or(options.severity_min);
  for (const YamlNode& text : node.Get("match").Items()) {
    const absl::StatusOr<LabelMatcher> matcher = LabelMatcher::Parse(text.String());
    if (matcher.ok()) {
      options.match.push_back(*matcher);
    } else {
      text.Error(matcher.status().message());
    }
  }
  if (options.type != NotifierType::kLog && options.type != NotifierType::kAlertmanager) {
    options.group_wait =
        node.Get("group_wait").Duration({absl::ZeroDuration(), absl::Hours(1)}, options.group_wait);
    options.messages_per_hour_max =
        node.Get("messages_per_hour_max").Int({0, 100'000}, options.messages_per_hour_max);
  }
  ReadReceiver(node, &options);
  return options;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

std::vector<NotifierOptions> ReadNotifiers(const YamlNode& list) {
  if (!list.present()) return {DefaultsOf(NotifierType::kLog)};
  std::vector<NotifierOptions> notifiers;
  std::set<std::string> names;
  for (const YamlNode& item : list.Items()) notifiers.push_back(ReadNotifier(item, &names));
  return notifiers;
}

std::string FormatNotifiers(const std::vector<NotifierOptions>& notifiers) {
  if (notifiers.empty()) return " []";
  std::string text;
  for (const NotifierOptions& options : notifiers) {
    const auto add = [&text](absl::string_view key, absl::string_view value) {
      absl::StrAppend(&text, "\n    ", key, ": ", value);
    };
    const auto add_quoted = [&add](absl::string_view key, const std::string& value) {
      if (!value.empty()) add(key, Quoted(value));
    };
    const auto add_source = [&add_quoted](absl::string_view key, const SecretSource& source) {
      add_quoted(absl::StrCat(key, "_file"), source.file);
      add_quoted(absl::StrCat(key, "_env"), source.env);
    };
    absl::StrAppend(&text, "\n  - type: ", NameOfType(options.type));
    add("name", options.name);
    add("severity_min", SeverityName(options.severity_min));
    std::vector<std::string> match;
    for (const LabelMatcher& matcher : options.match) match.push_back(Quoted(matcher.text()));
    if (!match.empty()) add("match", absl::StrCat("[", absl::StrJoin(match, ", "), "]"));
    if (options.type == NotifierType::kLog) continue;
    if (options.type == NotifierType::kAlertmanager) {
      std::vector<std::string> urls;
      for (const std::string& url : options.urls) urls.push_back(Quoted(url));
      add("urls", absl::StrCat("[", absl::StrJoin(urls, ", "), "]"));
      add("resend", absl::FormatDuration(options.resend));
    } else {
      add("group_wait", absl::FormatDuration(options.group_wait));
      add("messages_per_hour_max", absl::StrCat(options.messages_per_hour_max));
      if (!options.urls.empty()) add_quoted("url", options.urls.front());
    }
    add_source("url", options.url);
    add_source("routing_key", options.routing_key);
    add_source("hmac_secret", options.hmac_secret);
    add_source("bearer_token", options.bearer_token);
    add_quoted("ca_file", options.ca_file);
    add_quoted("proxy", options.proxy);
    add("connect_timeout", absl::FormatDuration(options.connect_timeout));
    add("timeout", absl::FormatDuration(options.timeout));
  }
  return text;
}

}  // namespace foreshock
