// The checksum that ends every value of the store.
//
//   FORESHOCK_RETURN_IF_ERROR(PutRow(family, key, row, &batch));   // when it is written
//   if (!Unseal(key, &value)) return CorruptRow(...);              // when it is read
//
// It covers the key, so a value under a wrong key is found too.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

inline constexpr size_t kSealBytes = 4;

// Puts `row` with its checksum into `batch`. All rows but the format's are written by this.
absl::Status PutRow(rocksdb::ColumnFamilyHandle* family, const std::string& key, std::string row,
                    rocksdb::WriteBatch* batch);

// Appends the CRC-32 (of zlib, little-endian) of `key` and `*row` to `*row`.
void Seal(absl::string_view key, std::string* row);

// Cuts the checksum off the end of `*row`; false if it is missing or wrong.
bool Unseal(absl::string_view key, absl::string_view* row);

}  // namespace foreshock::store
