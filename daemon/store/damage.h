// What was found damaged while a store was open: said in the log, counted, and kept from ending
// the writing.
//
//   auto damage = std::make_shared<DamageWatch>();
//   options.listeners.push_back(damage);    // what RocksDB meets in the background
//   damage->Note(status);                   // what a read met
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "rocksdb/listener.h"

namespace foreshock::store {

// Thread-safe.
class DamageWatch final : public rocksdb::EventListener {
 public:
  // Counts a DataLoss and says it, a line in 10 s. Anything else is no damage.
  void Note(const absl::Status& status);

  // Times that damage was met, the same place again and again.
  uint64_t found() const { return found_; }

  // A compaction met a damaged table since this was last asked. RocksDB would try it again every
  // second for ever: the caller is to suspend compactions.
  bool TakeFailedCompaction() { return compaction_failed_.exchange(false); }

  const char* Name() const override { return "DamageWatch"; }
  // RocksDB would take no writes any more because a compaction cannot read a table. The table is
  // not lost by writing on, and nothing of it is thrown away.
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;

 private:
  std::atomic<uint64_t> found_{0};
  std::atomic<bool> compaction_failed_{false};
};

}  // namespace foreshock::store
