#include "daemon/http/waiting_room.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace foreshock::http::internal {

std::optional<WaitingRoom::Guest> WaitingRoom::Enter(Guest guest) {
  base::MutexLock lock(&mutex_);
  const std::string address = guest.address;
  waiting_.push_back(std::move(guest));
  if (waiting_.size() <= waiting_max_) {
    changed_.NotifyAll();
    return std::nullopt;
  }
  std::map<std::string, size_t> counts;
  for (const Guest& waiting : waiting_) ++counts[waiting.address];
  size_t most = counts[address];
  std::string crowd = address;
  for (const auto& [other, count] : counts) {
    if (count > most) {
      most = count;
      crowd = other;
    }
  }
  const auto newest = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                   [&](const Guest& waiting) { return waiting.address == crowd; });
  Guest gone = std::move(*newest);
  waiting_.erase(std::next(newest).base());
  changed_.NotifyAll();
  return gone;
}

std::optional<WaitingRoom::Guest> WaitingRoom::Next() {
  base::MutexLock lock(&mutex_);
  while (true) {
    const Guests::iterator chosen = Choose();
    if (chosen != waiting_.end()) {
      Guest guest = std::move(*chosen);
      waiting_.erase(chosen);
      ++served_[guest.address];
      return guest;
    }
    if (closed_ && waiting_.empty()) return std::nullopt;
    changed_.Wait(&mutex_);
  }
}

WaitingRoom::Guests::iterator WaitingRoom::Choose() {
  auto chosen = waiting_.end();
  size_t least = closed_ ? SIZE_MAX : served_max_;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (const size_t served = Served(it->address); served < least) {
      least = served;
      chosen = it;
    }
  }
  return chosen;
}

size_t WaitingRoom::Served(const std::string& address) const {
  const auto found = served_.find(address);
  return found == served_.end() ? 0 : found->second;
}

void WaitingRoom::Leave(const std::string& address) {
  base::MutexLock lock(&mutex_);
  const auto found = served_.find(address);
  if (found != served_.end() && --found->second == 0) served_.erase(found);
  changed_.NotifyAll();
}

bool WaitingRoom::Wanted(const std::string& address) const {
  base::MutexLock lock(&mutex_);
  for (const Guest& waiting : waiting_) {
    if (waiting.address == address || Served(waiting.address) < served_max_) return true;
  }
  return false;
}

void WaitingRoom::Close() {
  base::MutexLock lock(&mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace foreshock::http::internal
