// Out of the configuration of a notifier, what tells people.
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

// One for each URL of kAlertmanager, else one. Reads the secrets; the errors are ReadSecret's, and
// InvalidArgument for a secret URL that is none, named by the notifier. `external_url` is the
// daemon's, for links; may be empty.
absl::StatusOr<std::vector<MadeChannel>> MakeChannels(const NotifierOptions& options,
                                                      const std::string& external_url);

// Whether MakeChannels of all of them would succeed.
absl::Status CheckNotifiers(const std::vector<NotifierOptions>& notifiers);

}  // namespace foreshock::notify
