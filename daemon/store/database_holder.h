// Holds the open database, so that it can be closed and opened again under its readers.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder.Acquire());
//   lease->db()->Get(...);   // the database stays open as long as the lease lives
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/store.h"
#include "rocksdb/env.h"

namespace foreshock::store {

// Thread-safe.
class DatabaseHolder {
 public:
  // Use of the database, which stays open as long as the lease lives. Must not outlive the holder.
  class Lease {
   public:
    // `holder` may be nullptr for a database that outlives the lease.
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

  // Waits while the database is being reopened. Unavailable if that takes too long or failed.
  absl::StatusOr<Lease> Acquire() const;

  // Closes the database and opens it again, once all leases are given back. Unavailable if that
  // takes too long: try again. If the opening fails, reads go on with a read-only view where that
  // is possible.
  absl::Status Reopen();

 private:
  void Release() const;

  const StoreOptions options_;
  rocksdb::Env* const env_;
  const std::shared_ptr<DamageWatch> damage_;
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  std::unique_ptr<Database> database_ ABSL_GUARDED_BY(mutex_);
  mutable int leases_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reopening_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace foreshock::store
