// The checksum that ends every value of the store.
//
//   FORESHOCK_RETURN_IF_ERROR(PutRow(family, key, row, &batch));   // when it is written
//   if (!Unseal(key, &value)) return CorruptRow(...);              // when it is read
//
// It covers the key, so that a value under another key is found too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

inline constexpr size_t kSealBytes = 4;

// Puts `row`, sealed, into `batch`. Every row but the format's gets to the store here.
absl::Status PutRow(rocksdb::ColumnFamilyHandle* family, const std::string& key, std::string row,
                    rocksdb::WriteBatch* batch);

// Appends the CRC-32 (of zlib, little-endian) of `key` and `*row` to `*row`.
void Seal(std::string_view key, std::string* row);

// Takes the checksum off the end of `*row`; false if it is not there or not right.
bool Unseal(std::string_view key, std::string_view* row);

}  // namespace foreshock::store
