// Makes the channels of a notifier from its configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/notify/channel.h"
#include "daemon/notify/options.h"

namespace foreshock::notify {

struct MadeChannel {
  Channel::Options options{};
  std::unique_ptr<Notifier> notifier{};
};

// One channel for each URL of kAlertmanager, else one. Reads the secrets and templates. The errors
// name the notifier: ReadSecret's, BodyTemplate::Read's, and InvalidArgument for a secret that
// should be a URL. `external_url` is the daemon's, for links; may be empty.
absl::StatusOr<std::vector<MadeChannel>> MakeChannels(const NotifierOptions& options,
                                                      const std::string& external_url);

// Whether MakeChannels of all notifiers would succeed.
absl::Status CheckNotifiers(const std::vector<NotifierOptions>& notifiers);

}  // namespace foreshock::notify
