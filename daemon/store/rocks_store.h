// The store on RocksDB, for callers that bring their own environment.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const auto store, OpenRocksStore(options, failing_env.get()));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/store/disk_store.h"
#include "rocksdb/env.h"

namespace foreshock::store {

// As OpenStore. `env` is not owned (nullptr: the system's); tests make writes fail with it.
absl::StatusOr<std::unique_ptr<DiskStore>> OpenRocksStore(const StoreOptions& options,
                                                          rocksdb::Env* env);

}  // namespace foreshock::store
