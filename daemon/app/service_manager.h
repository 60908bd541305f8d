// Tells systemd how the daemon is, where it was started with Type=notify (deploy/systemd/);
// elsewhere, without $NOTIFY_SOCKET, every call does nothing.
//
//   const ServiceManager manager;
//   manager.Ready("serving 2 runs");   // also when a reload is over, good or not
//   ... manager.Alive("serving 3 runs") every manager.interval() ...
//   manager.Stopping();
#pragma once

#include <string>

#include "absl/time/time.h"

namespace foreshock::app {

// One line for people: `systemctl status` shows it. A message that cannot be sent is dropped; what
// waits for it, the watchdog above all, is systemd's.
class ServiceManager {
 public:
  ServiceManager();

  // How often Alive() is due: half of the watchdog's time, 10 s at most; infinite without systemd.
  absl::Duration interval() const { return interval_; }

  void Ready(const std::string& status) const;
  void Reloading() const;
  void Alive(const std::string& status) const;
  void Stopping() const;

 private:
  absl::Duration interval_ = absl::InfiniteDuration();
};

}  // namespace foreshock::app
