#include "daemon/notify/webhook.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/notify/text.h"
#include "google/protobuf/util/json_util.h"

namespace foreshock::notify {
namespace {

using Json = nlohmann::json;

constexpr size_t kWebhookSummaryMax = 1024;
constexpr size_t kAlertsMax = 100;  // of one message; the others are counted in `more`

absl::string_view StatusName(MessageKind kind) {
  switch (kind) {
    case MessageKind::kFiring:
      return "firing";
    case MessageKind::kAcknowledged:
      return "acknowledged";
    case MessageKind::kResolved:
      return "resolved";
  }
  return "";
}

// The alert as /api/v1/alerts shows it.
absl::StatusOr<Json> JsonOf(const v1::Alert& alert) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(alert, &text, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat("alert ", alert.id(), ": ", status.ToString()));
  }
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InternalError(absl::StrCat("alert ", alert.id(), " is no JSON"));
  }
  return json;
}

}  // namespace

std::string Signature(const std::string& secret, const std::string& body) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const unsigned char* const done =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(body.data()), body.size(), digest.data(), &size);
  FORESHOCK_CHECK(done != nullptr);
  return absl::StrCat("sha256=", absl::BytesToHexString(absl::string_view(
                                     reinterpret_cast<const char*>(digest.data()), size)));
}

SendResult WebhookNotifier::Send(const Message& message) {
  Json alerts = Json::array();
  const size_t shown = std::min(message.alerts.size(), kAlertsMax);
  for (size_t i = 0; i < shown; ++i) {
    absl::StatusOr<Json> alert = JsonOf(message.alerts[i]->alert());
    if (!alert.ok()) {
      return {.outcome = SendResult::Outcome::kRefused, .status = alert.status()};
    }
    (*alert)["fired_unix_ns"] = absl::StrCat(message.alerts[i]->fired_unix_ns());
    if (const auto over = OverSince(message, *message.alerts[i]); over.has_value()) {
      (*alert)["ended_unix_ns"] = absl::StrCat(absl::ToUnixNanos(*over));
    }
    if (const std::string reason = EndReason(message, *message.alerts[i]); !reason.empty()) {
      (*alert)["end_reason"] = reason;
    }
    alerts.push_back(*std::move(alert));
  }
  const std::string run = message.alerts.front()->alert().run();
  const std::string status(StatusName(message.kind));
  const Json json = {{"version", 1},
                     {"status", status},
                     {"group", message.group},
                     {"run", run},
                     {"run_url", RunUrl(options_.external_url, run)},
                     {"summary", Headline(message, kWebhookSummaryMax)},
                     {"alerts", std::move(alerts)},
                     {"more", message.alerts.size() - shown}};
  const std::string body = body_template_ != nullptr
                               ? body_template_->Render(json)
                               : json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<std::string> headers = {
      absl::StrCat("Content-Type: ", options_.content_type),
      absl::StrCat("Idempotency-Key: ", message.group, "/", status)};
  if (!options_.bearer_token.empty()) {
    headers.push_back(absl::StrCat("Authorization: Bearer ", options_.bearer_token));
  }
  if (!options_.hmac_secret.empty()) {
    headers.push_back(
        absl::StrCat("X-Foreshock-Signature: ", Signature(options_.hmac_secret, body)));
  }
  return ResultOf(poster_->Post(options_.url, headers, body), *poster_);
}

}  // namespace foreshock::notify
