// The daemon as a whole: creates every part, joins them, reloads and stops them.
//
//   FORESHOCK_ASSIGN_OR_RETURN(std::unique_ptr<App> app, App::Start(config, reload));
//   ... wait for a signal ...
//   return app->Stop();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config/config.h"

namespace foreshock::app {

// Rule files that an installed Foreshock brings, found from where the program lies; empty when
// there are none.
std::vector<std::string> InstalledRules();

class App {
 public:
  using LoadFn = std::function<absl::StatusOr<config::Config>()>;

  // Parts start in the order of the flow, backwards: nothing is admitted before everything behind
  // it runs. If one fails, those before it are stopped again. Errors: InvalidArgument for bad
  // rules, else what the part says; every message names the part.
  static absl::StatusOr<std::unique_ptr<App>> Start(config::Config config, LoadFn load);
  ~App();

  const std::string& grpc_address() const;
  const std::string& http_address() const;
  // Atomic: a reader sees a whole file or none.
  absl::Status WriteAddresses(const std::string& path) const;

  // Reads configuration and rules again, all or nothing. Thread-safe.
  absl::Status Reload();

  // How it stands, in a line. Takes the locks of every part, so a caller that gets it knows that
  // none is stuck.
  std::string Summary() const;

  // Not ready, no new streams; streams end once acknowledged; what is queued is committed; all
  // within shutdown_deadline. Peers that do not let go are cut off after 2 s, or half of it.
  // Errors: DeadlineExceeded when not all was committed in time, or a part hangs. A part that hangs
  // is left behind: the process is to end without running destructors (std::_Exit).
  absl::Status Stop();

 private:
  class Parts;
  explicit App(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace foreshock::app
