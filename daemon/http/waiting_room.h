// Connections that wait for a thread, so that one client, however many connections it opens and
// however slowly it speaks on them, leaves room for the others: a probe is answered beside it.
// Internal to http/.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "daemon/base/mutex.h"

namespace foreshock::http::internal {

// Thread-safe. Owns no descriptor.
class WaitingRoom {
 public:
  struct Guest {
    int fd = -1;
    std::string address{};  // of the peer, without the port
  };

  // With more than one thread an address is served by all but one of them at most.
  WaitingRoom(size_t waiting_max, size_t threads)
      : waiting_max_(waiting_max), served_max_(threads > 1 ? threads - 1 : 1) {}

  // When the room is full somebody has to go, and is returned: the newest guest of the address that
  // has the most, which may be this one.
  std::optional<Guest> Enter(Guest guest);

  // Waits for a guest and takes the one whose address is served least, of those the first. Its
  // address counts as served until Leave. After Close all that wait, then nothing.
  std::optional<Guest> Next();
  void Leave(const std::string& address);

  // Whether somebody waits who could have the thread that serves `address`.
  bool Wanted(const std::string& address) const;

  void Close();

 private:
  using Guests = std::deque<Guest>;

  Guests::iterator Choose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t Served(const std::string& address) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const size_t waiting_max_;
  const size_t served_max_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  Guests waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, size_t> served_ ABSL_GUARDED_BY(mutex_);  // connections, by address
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace foreshock::http::internal
