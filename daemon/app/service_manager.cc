#include "daemon/app/service_manager.h"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace foreshock::app {
namespace {

// So often the status line is refreshed where no watchdog asks for more.
constexpr absl::Duration kStatusInterval = absl::Seconds(10);

void Notify(const std::string& message) {
  (void)sd_notify(/*unset_environment=*/0, message.c_str());
}

}  // namespace

ServiceManager::ServiceManager() {
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return;
  interval_ = kStatusInterval;
  uint64_t watchdog_us = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &watchdog_us) > 0) {
    interval_ = std::min(interval_, absl::Microseconds(watchdog_us) / 2);
  }
}

void ServiceManager::Ready(const std::string& status) const {
  Notify(absl::StrCat("READY=1\nSTATUS=", status));
}

void ServiceManager::Reloading() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  Notify(absl::StrCat(
      "RELOADING=1\nMONOTONIC_USEC=", absl::ToInt64Microseconds(absl::DurationFromTimespec(now)),
      "\nSTATUS=reading the configuration again"));
}

void ServiceManager::Alive(const std::string& status) const {
  Notify(absl::StrCat("WATCHDOG=1\nSTATUS=", status));
}

void ServiceManager::Stopping() const { Notify("STOPPING=1\nSTATUS=committing what is queued"); }

}  // namespace foreshock::app
