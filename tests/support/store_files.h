// The files of a store that nobody has open.
#pragma once

#include <memory>

#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "tests/support/status_matchers.h"

namespace foreshock::support {

// Everything that is in the log, and in no file yet, into files.
inline void IntoFiles(const store::StoreOptions& closed) {
  ASSERT_OK_AND_ASSIGN(
      const auto database,
      store::Database::Open(closed, nullptr, std::make_shared<store::DamageWatch>()));
  for (const store::Family family : store::kAllFamilies) {
    const rocksdb::CompactRangeOptions options;
    ASSERT_TRUE(
        database->db()->CompactRange(options, database->family(family), nullptr, nullptr).ok());
  }
}

}  // namespace foreshock::support
