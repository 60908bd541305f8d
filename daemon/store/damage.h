// Watches for damage while a store is open: logs it, counts it, and lets writing go on.
//
//   auto damage = std::make_shared<DamageWatch>();
//   options.listeners.push_back(damage);    // damage that RocksDB finds in the background
//   damage->Note(status);                   // damage that a read finds
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "rocksdb/listener.h"

namespace foreshock::store {

// Thread-safe.
class DamageWatch final : public rocksdb::EventListener {
 public:
  // Counts and logs a DataLoss, at most a line in 10 s. Any other status is no damage.
  void Note(const absl::Status& status);

  // How often damage was met; the same place counts each time.
  uint64_t found() const { return found_; }

  // Whether a compaction has met a damaged table since the last call. RocksDB would repeat it every
  // second for ever, so the caller must suspend compactions.
  bool TakeFailedCompaction() { return compaction_failed_.exchange(false); }

  const char* Name() const override { return "DamageWatch"; }
  // Clears the error of a compaction that cannot read a table: RocksDB would take no more writes.
  // Further writes do no harm to the table, and nothing of it is deleted.
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;

 private:
  std::atomic<uint64_t> found_{0};
  std::atomic<bool> compaction_failed_{false};
};

}  // namespace foreshock::store
