// The configuration of one notifier. docs/config.md explains the keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/notify/http_client.h"
#include "daemon/notify/matcher.h"
#include "daemon/notify/secret.h"
#include "daemon/notify/severity.h"

namespace foreshock::notify {

enum class NotifierType { kLog, kAlertmanager, kPagerDuty, kWebhook, kSlack };

// Value type.
struct NotifierOptions {
  std::string name = "log";  // the label on metrics; unique
  NotifierType type = NotifierType::kLog;

  // Who is told.
  Severity severity_min = Severity::kInfo;
  std::vector<base::LabelMatcher> match{};  // every one must hold

  // When.
  absl::Duration group_wait{};        // how long the first alert of a message waits for others
  int64_t messages_per_hour_max = 0;  // messages that something fires; 0: no limit
  absl::Duration resend{};            // kAlertmanager: how often the state is shown

  // Where. One URL; kAlertmanager: one for each replica.
  std::vector<std::string> urls{};
  SecretSource url{};                             // kWebhook, kSlack: a URL that is a secret
  SecretSource routing_key{};                     // kPagerDuty
  SecretSource hmac_secret{};                     // kWebhook
  SecretSource bearer_token{};                    // kAlertmanager, kWebhook
  std::string template_file{};                    // kWebhook; empty: the documented JSON
  std::string content_type = "application/json";  // kWebhook
  bool change_events = false;                     // kPagerDuty: new attempts of a run
  HttpClientOptions http{};
};

}  // namespace foreshock::notify
