// The store over RocksDB.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/store/disk_store.h"
#include "rocksdb/env.h"

namespace foreshock::store {

// OpenStore with an environment of the caller's, not owned (nullptr: the system's); tests make
// writes fail with it.
absl::StatusOr<std::unique_ptr<DiskStore>> OpenRocksStore(const StoreOptions& options,
                                                          rocksdb::Env* env);

}  // namespace foreshock::store
