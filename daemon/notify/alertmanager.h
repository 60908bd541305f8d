// Shows the state to one replica of Alertmanager, by POST /api/v2/alerts: an alert that fires with
// an end a few intervals ahead, and for a while an alert that is over with its end. A silenced
// alert is shown too, with a silence in Alertmanager: an alert that nobody shows is over there.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/notify/alertmanager_silences.h"
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
  AlertmanagerNotifier(Options options, std::unique_ptr<HttpPoster> poster);

  SendResult Send(const Message& message) override;
  // "told_twice": Prometheus tells this Alertmanager of the same alerts, by exported rules.
  // "silences_refused": Alertmanager does not take the daemon's silences.
  std::set<std::string> Troubles() const override { return troubles_; }
  void Cancel() override { poster_->Cancel(); }

 private:
  struct Entry;
  struct Shown;
  Shown ShownOf(const Message& message) const;
  void LookForExportedRules(const Shown& shown, absl::Time now);
  void Note(const std::string& trouble, bool there, const std::string& why);

  const Options options_;
  const std::unique_ptr<HttpPoster> poster_;
  const std::string url_;
  const std::vector<std::string> headers_;
  AlertmanagerSilences silences_;
  absl::Time looked_at_ = absl::InfinitePast();  // for exported rules
  std::set<std::string> troubles_;
};

}  // namespace foreshock::notify
