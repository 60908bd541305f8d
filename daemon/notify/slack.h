// Posts to an incoming webhook of Slack, or of Mattermost or Rocket.Chat, which understand the
// same.
#pragma once

#include <memory>
#include <string>

#include "daemon/notify/http_client.h"
#include "daemon/notify/notifier.h"

namespace foreshock::notify {

class SlackNotifier final : public Notifier {
 public:
  struct Options {
    std::string url{};  // a secret
    std::string external_url{};
  };
  SlackNotifier(Options options, std::unique_ptr<HttpPoster> poster)
      : options_(std::move(options)), poster_(std::move(poster)) {}

  SendResult Send(const Message& message) override;
  void Cancel() override { poster_->Cancel(); }

 private:
  const Options options_;
  const std::unique_ptr<HttpPoster> poster_;
};

}  // namespace foreshock::notify
