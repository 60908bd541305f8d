// Posts the JSON of docs/webhook.md, or what a template makes of it, to a URL. Signs it where a
// secret is configured.
#pragma once

#include <memory>
#include <string>

#include "daemon/notify/body_template.h"
#include "daemon/notify/http_client.h"
#include "daemon/notify/notifier.h"

namespace foreshock::notify {

class WebhookNotifier final : public Notifier {
 public:
  struct Options {
    std::string url{};
    std::string hmac_secret{};   // empty: not signed
    std::string bearer_token{};  // may be empty
    std::string external_url{};
    std::string content_type = "application/json";
  };
  // `body_template` may be null: the JSON itself.
  WebhookNotifier(Options options, std::unique_ptr<BodyTemplate> body_template,
                  std::unique_ptr<HttpPoster> poster)
      : options_(std::move(options)),
        body_template_(std::move(body_template)),
        poster_(std::move(poster)) {}

  SendResult Send(const Message& message) override;
  void Cancel() override { poster_->Cancel(); }

 private:
  const Options options_;
  const std::unique_ptr<BodyTemplate> body_template_;
  const std::unique_ptr<HttpPoster> poster_;
};

// "sha256=" and the HMAC-SHA256 of the body in hexadecimal.
std::string Signature(const std::string& secret, const std::string& body);

}  // namespace foreshock::notify
