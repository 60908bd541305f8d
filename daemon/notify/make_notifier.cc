#include "daemon/notify/make_notifier.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/notify/alertmanager.h"
#include "daemon/notify/log_notifier.h"
#include "daemon/notify/pagerduty.h"
#include "daemon/notify/slack.h"
#include "daemon/notify/webhook.h"

namespace foreshock::notify {
namespace {

// A shorter path is no secret, and would hide innocent words.
constexpr size_t kPathWorthHiding = 8;

// "" where none is configured.
absl::StatusOr<std::string> OptionalSecret(const SecretSource& source,
                                           std::vector<std::string>* secrets) {
  if (!source.given()) return std::string();
  FORESHOCK_ASSIGN_OR_RETURN(std::string secret, ReadSecret(source));
  secrets->push_back(secret);
  return secret;
}

absl::StatusOr<std::string> UrlOf(const NotifierOptions& options,
                                  std::vector<std::string>* secrets) {
  if (!options.url.given()) return options.urls.empty() ? std::string() : options.urls.front();
  FORESHOCK_ASSIGN_OR_RETURN(std::string url, OptionalSecret(options.url, secrets));
  if (!absl::StartsWith(url, "http://") && !absl::StartsWith(url, "https://")) {
    return absl::InvalidArgumentError("the secret URL does not begin with http:// or https://");
  }
  // A receiver's answer may repeat the path.
  const size_t path = url.find('/', url.find("://") + 3);
  if (path != std::string::npos && url.size() - path > kPathWorthHiding) {
    secrets->push_back(url.substr(path + 1));
  }
  return url;
}

absl::StatusOr<std::vector<MadeChannel>> Make(const NotifierOptions& options,
                                              const std::string& external_url) {
  std::vector<std::string> secrets;
  FORESHOCK_ASSIGN_OR_RETURN(const std::string url, UrlOf(options, &secrets));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string token,
                             OptionalSecret(options.bearer_token, &secrets));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string key, OptionalSecret(options.routing_key, &secrets));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string hmac, OptionalSecret(options.hmac_secret, &secrets));
  const auto poster = [&] { return std::make_unique<HttpClient>(options.http, secrets); };
  const Channel::Options channel = {.notifier = options.name,
                                    .severity_min = options.severity_min,
                                    .match = options.match,
                                    .group_wait = options.group_wait,
                                    .messages_per_hour_max = options.messages_per_hour_max,
                                    .resend = options.resend,
                                    .recorded_first = options.type == NotifierType::kLog,
                                    .end_every_group = options.type == NotifierType::kPagerDuty,
                                    .changes = options.change_events};
  std::vector<MadeChannel> made;
  switch (options.type) {
    case NotifierType::kLog:
      made.push_back({channel, std::make_unique<LogNotifier>()});
      break;
    case NotifierType::kAlertmanager:
      for (const std::string& replica : options.urls) {
        made.push_back({channel, std::make_unique<AlertmanagerNotifier>(
                                     AlertmanagerNotifier::Options{.url = replica,
                                                                   .bearer_token = token,
                                                                   .resend = options.resend,
                                                                   .external_url = external_url,
                                                                   .notifier = options.name},
                                     poster())});
      }
      break;
    case NotifierType::kPagerDuty: {
      PagerDutyNotifier::Options pagerduty{.routing_key = key, .external_url = external_url};
      if (!url.empty()) pagerduty.url = url;
      made.push_back({channel, std::make_unique<PagerDutyNotifier>(pagerduty, poster())});
      break;
    }
    case NotifierType::kWebhook: {
      std::unique_ptr<BodyTemplate> body;
      if (!options.template_file.empty()) {
        const bool json = absl::StrContains(options.content_type, "json");
        FORESHOCK_ASSIGN_OR_RETURN(body, BodyTemplate::Read(options.template_file, json));
      }
      made.push_back({channel, std::make_unique<WebhookNotifier>(
                                   WebhookNotifier::Options{.url = url,
                                                            .hmac_secret = hmac,
                                                            .bearer_token = token,
                                                            .external_url = external_url,
                                                            .content_type = options.content_type},
                                   std::move(body), poster())});
      break;
    }
    case NotifierType::kSlack:
      made.push_back({channel, std::make_unique<SlackNotifier>(
                                   SlackNotifier::Options{.url = url, .external_url = external_url},
                                   poster())});
      break;
  }
  return made;
}

}  // namespace

absl::StatusOr<std::vector<MadeChannel>> MakeChannels(const NotifierOptions& options,
                                                      const std::string& external_url) {
  absl::StatusOr<std::vector<MadeChannel>> made = Make(options, external_url);
  if (!made.ok())
    return base::Annotate(made.status(), absl::StrCat("notifier '", options.name, "'"));
  return made;
}

absl::Status CheckNotifiers(const std::vector<NotifierOptions>& notifiers) {
  for (const NotifierOptions& options : notifiers) {
    FORESHOCK_RETURN_IF_ERROR(MakeChannels(options, "").status());
  }
  return absl::OkStatus();
}

}  // namespace foreshock::notify
