// One open RocksDB database with Foreshock's column families and limits.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const auto database, Database::Open(options, env, damage));
//   database->db()->Put({}, database->family(Family::kRows), key, value);
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/damage.h"
#include "daemon/store/store.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"

namespace foreshock::store {

// Column families. `default`: rows. `open`: statistics of open steps, which come and go. `heads`:
// closed steps until they are folded. `chunks`: the packed points and step rows that a fold makes.
enum class Family { kRows = 0, kOpen = 1, kHeads = 2, kChunks = 3 };
inline constexpr Family kAllFamilies[] = {Family::kRows, Family::kOpen, Family::kHeads,
                                          Family::kChunks};
inline constexpr int kFamilies = 4;
absl::string_view FamilyName(Family family);

// Closes in its destructor; every iterator and snapshot must be gone by then. Thread-safe as
// rocksdb::DB is.
class Database {
 public:
  // `env` is not owned; nullptr: the system's. A directory that another process has open for
  // writing can still be opened with options.read_only. A store of another format is refused.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const StoreOptions& options,
                                                        rocksdb::Env* env,
                                                        std::shared_ptr<DamageWatch> damage);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* family(Family family) const {
    return handles_[static_cast<int>(family)];
  }
  // Damage that is found while the database is open.
  DamageWatch& damage() const { return *damage_; }
  // Stops compactions until the database is opened again; called after one has met a damaged table.
  // Tables are only added then, so the store grows and reads get slower over weeks.
  absl::Status SuspendCompactions() const;

 private:
  explicit Database(std::shared_ptr<DamageWatch> damage) : damage_(std::move(damage)) {}

  const std::shared_ptr<DamageWatch> damage_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* handles_[kFamilies] = {};
};

// Forces the logs in `directory`, and the directory itself, to the medium. It opens the files
// itself: rocksdb::DB::SyncWAL ends the process when the last append to the log has failed, and a
// write on another thread may fail at any moment. The process buffers nothing of a log.
// Thread-safe.
absl::Status SyncLogs(const std::string& directory, rocksdb::Env* env);

}  // namespace foreshock::store
