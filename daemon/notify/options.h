// What the configuration says of one notifier. docs/config.md explains the keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/notify/matcher.h"
#include "daemon/notify/notifier.h"
#include "daemon/notify/secret.h"

namespace foreshock {

enum class NotifierType { kLog, kAlertmanager, kPagerDuty, kWebhook, kSlack };

// Value type.
struct NotifierOptions {
  std::string name = "log";  // the label on metrics; unique
  NotifierType type = NotifierType::kLog;

  // Who is told.
  Severity severity_min = Severity::kInfo;
  std::vector<LabelMatcher> match{};  // every one must hold

  // When.
  absl::Duration group_wait{};        // so long the first alert of a message waits for others
  int64_t messages_per_hour_max = 0;  // that something fires; 0: no limit
  absl::Duration resend{};            // kAlertmanager: what fires is repeated so often

  // Where. One URL, but for kAlertmanager: every replica.
  std::vector<std::string> urls{};
  SecretSource url{};           // kWebhook, kSlack: the URL, where it is a secret
  SecretSource routing_key{};   // kPagerDuty
  SecretSource hmac_secret{};   // kWebhook
  SecretSource bearer_token{};  // kAlertmanager, kWebhook
  std::string ca_file{};        // PEM; empty: the system's
  std::string proxy{};          // empty: http_proxy, https_proxy and no_proxy of the environment
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration timeout = absl::Seconds(10);  // of a whole request
};

}  // namespace foreshock
