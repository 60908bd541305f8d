// A store's database without the store: for tests that leave in it what the store never would.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"

namespace foreshock::support {

// Open from its construction to its end, with the column families of today's format and `others`.
class RawStore {
 public:
  explicit RawStore(const std::string& directory, const std::vector<std::string>& others = {}) {
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const char* name : {"default", "open", "heads", "chunks"}) {
      families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    }
    for (const std::string& name : others) {
      families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    }
    rocksdb::DB* raw = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(rocksdb::DBOptions(), directory, families, &handles_, &raw).ok());
    db_.reset(raw);
  }
  ~RawStore() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
  }

  rocksdb::ColumnFamilyHandle* rows() const { return handles_.front(); }  // `default`
  rocksdb::ColumnFamilyHandle* Create(const std::string& family) {
    EXPECT_TRUE(db_->CreateColumnFamily({}, family, &handles_.emplace_back()).ok());
    return handles_.back();
  }
  std::string Get(rocksdb::ColumnFamilyHandle* family, const std::string& key) const {
    std::string value;
    EXPECT_TRUE(db_->Get({}, family, key, &value).ok());
    return value;
  }
  void Put(rocksdb::ColumnFamilyHandle* family, const std::string& key, const std::string& value) {
    EXPECT_TRUE(db_->Put({}, family, key, value).ok());
  }

 private:
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace foreshock::support
