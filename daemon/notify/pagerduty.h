// Tells PagerDuty by its Events API v2: trigger, acknowledge and resolve under one dedup_key.
// Change events are shown beside incidents and page nobody.
#pragma once

#include <memory>
#include <string>

#include "daemon/notify/http_client.h"
#include "daemon/notify/notifier.h"

namespace foreshock::notify {

class PagerDutyNotifier final : public Notifier {
 public:
  struct Options {
    std::string url = "https://events.pagerduty.com/v2/enqueue";  // changes: .../change/enqueue
    std::string routing_key{};
    std::string external_url{};
  };
  PagerDutyNotifier(Options options, std::unique_ptr<HttpPoster> poster)
      : options_(std::move(options)), poster_(std::move(poster)) {}

  SendResult Send(const Message& message) override;
  SendResult SendChange(const RunChange& change) override;
  void Cancel() override { poster_->Cancel(); }

 private:
  const Options options_;
  const std::unique_ptr<HttpPoster> poster_;
};

// The URL of change events, given that of alerts; "" if `url` does not end in /enqueue.
std::string ChangeUrl(const std::string& url);

}  // namespace foreshock::notify
