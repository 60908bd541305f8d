// One open RocksDB database with Foreshock's column families and limits, and the place that holds
// it, so that it can be closed and opened again under its readers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/store/damage.h"
#include "daemon/store/store.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"

namespace foreshock::store {

// Column families. `default`: rows. `open`: statistics of open steps, which come and go. `heads`:
// closed steps until they are folded. `chunks`: what they are folded into.
enum class Family { kRows = 0, kOpen = 1, kHeads = 2, kChunks = 3 };
inline constexpr Family kAllFamilies[] = {Family::kRows, Family::kOpen, Family::kHeads,
                                          Family::kChunks};
inline constexpr int kFamilies = 4;
absl::string_view FamilyName(Family family);

// Closes with the object; every iterator and snapshot must be gone by then. Thread-safe as
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
  // What is met while it is open.
  DamageWatch& damage() const { return *damage_; }
  // After a compaction has met a damaged table: tables are only added from now on, until the
  // database is opened again. It takes more room and reads get slower with the weeks.
  absl::Status SuspendCompactions() const;

 private:
  explicit Database(std::shared_ptr<DamageWatch> damage) : damage_(std::move(damage)) {}

  const std::shared_ptr<DamageWatch> damage_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* handles_[kFamilies] = {};
};

// Forces the logs in `directory`, and what the directory lists, to the medium. On descriptors of
// its own: rocksdb::DB::SyncWAL ends the process when the last append to the log has failed, which
// a write beside it may do at any moment. Nothing of a log is buffered in the process. Thread-safe.
absl::Status SyncLogs(const std::string& directory, rocksdb::Env* env);

// Thread-safe.
class DatabaseHolder {
 public:
  // Use of the database; it stays open as long as this lives. Must not outlive the holder.
  class Lease {
   public:
    explicit Lease(const DatabaseHolder* holder, const Database* database)
        : holder_(holder), database_(database) {}
    ~Lease() {
      if (holder_ != nullptr) holder_->Release();
    }
    Lease(Lease&& other) noexcept : holder_(other.holder_), database_(other.database_) {
      other.holder_ = nullptr;
    }
    Lease& operator=(Lease&&) = delete;
    const Database* operator->() const { return database_; }
    const Database& operator*() const { return *database_; }

   private:
    const DatabaseHolder* holder_;
    const Database* database_;
  };

  DatabaseHolder(const StoreOptions& options, rocksdb::Env* env,
                 std::shared_ptr<DamageWatch> damage, std::unique_ptr<Database> database);

  // Waits while the database is being reopened; Unavailable if that takes too long or failed.
  absl::StatusOr<Lease> Acquire() const;

  // Closes and opens again, once the reads under way are done (Unavailable if they take too long:
  // try again). After a failure reads go on with a read-only view where that can be had.
  absl::Status Reopen();

 private:
  void Release() const;

  const StoreOptions options_;
  rocksdb::Env* const env_;
  const std::shared_ptr<DamageWatch> damage_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::unique_ptr<Database> database_ ABSL_GUARDED_BY(mutex_);
  mutable int leases_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reopening_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace foreshock::store
