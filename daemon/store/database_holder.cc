#include "daemon/store/database_holder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"

namespace foreshock::store {
namespace {

constexpr absl::Duration kDrainWait = absl::Seconds(1);    // of a reopen, for the reads under way
constexpr absl::Duration kReopenWait = absl::Seconds(15);  // of a read, for a replay of the log

}  // namespace

DatabaseHolder::DatabaseHolder(const StoreOptions& options, rocksdb::Env* env,
                               std::shared_ptr<DamageWatch> damage,
                               std::unique_ptr<Database> database)
    : options_(options), env_(env), damage_(std::move(damage)), database_(std::move(database)) {}

absl::StatusOr<DatabaseHolder::Lease> DatabaseHolder::Acquire() const {
  const absl::Time deadline = base::SteadyNow() + kReopenWait;
  base::MutexLock lock(&mutex_);
  while (reopening_) {
    const absl::Duration left = deadline - base::SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError("store: is being reopened after a failed write; try again");
    }
    changed_.WaitFor(&mutex_, left);
  }
  if (database_ == nullptr) {
    return absl::UnavailableError("store: could not be reopened after a failed write; try again");
  }
  ++leases_;
  return Lease(this, database_.get());
}

void DatabaseHolder::Release() const {
  base::MutexLock lock(&mutex_);
  --leases_;
  changed_.NotifyAll();
}

absl::Status DatabaseHolder::Reopen() {
  std::unique_ptr<Database> old;
  {
    const absl::Time deadline = base::SteadyNow() + kDrainWait;
    base::MutexLock lock(&mutex_);
    reopening_ = true;
    while (leases_ > 0) {
      const absl::Duration left = deadline - base::SteadyNow();
      if (left <= absl::ZeroDuration()) {
        reopening_ = false;
        changed_.NotifyAll();
        return absl::UnavailableError(absl::StrCat(
            "store: cannot be reopened after a failed write while ", leases_, " reads go on"));
      }
      changed_.WaitFor(&mutex_, left);
    }
    old = std::move(database_);
  }
  old.reset();
  absl::StatusOr<std::unique_ptr<Database>> fresh = Database::Open(options_, env_, damage_);
  const absl::Status result = fresh.status();
  if (!fresh.ok()) {
    StoreOptions read_only = options_;
    read_only.read_only = true;
    fresh = Database::Open(read_only, env_, damage_);
  }
  base::MutexLock lock(&mutex_);
  if (fresh.ok()) database_ = std::move(fresh).value();
  reopening_ = false;
  changed_.NotifyAll();
  return result;
}

}  // namespace foreshock::store
