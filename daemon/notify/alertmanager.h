// Shows the state to one replica of Alertmanager, by POST /api/v2/alerts: an alert that fires with
// an end a few intervals ahead, and for a while an alert that is over with its end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/notify/http_client.h"
#include "daemon/notify/notifier.h"

namespace foreshock::notify {

class AlertmanagerNotifier final : public Notifier {
 public:
  struct Options {
    std::string url{};           // of the replica, without the path of the API
    std::string bearer_token{};  // may be empty
    absl::Duration resend = absl::Minutes(1);
    std::string external_url{};  // of the daemon
    std::string notifier{};      // its name in the deliveries of rows
  };
  AlertmanagerNotifier(Options options, std::unique_ptr<HttpPoster> poster)
      : options_(std::move(options)), poster_(std::move(poster)) {}

  SendResult Send(const Message& message) override;
  void Cancel() override { poster_->Cancel(); }

 private:
  const Options options_;
  const std::unique_ptr<HttpPoster> poster_;
};

}  // namespace foreshock::notify
