#include "daemon/indicators/snapshots.h"

namespace foreshock::indicators {

const WeightSnapshot* Snapshots::Find(const Key& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &found->second;
}

bool Snapshots::Put(const Key& key, WeightSnapshot snapshot) {
  Erase(key);
  if (snapshot.bytes.size() > options_.bytes_max - bytes_) return false;
  bytes_ += snapshot.bytes.size();
  by_key_.emplace(key, std::move(snapshot));
  return true;
}

void Snapshots::Erase(const Key& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  bytes_ -= found->second.bytes.size();
  by_key_.erase(found);
}

}  // namespace foreshock::indicators
