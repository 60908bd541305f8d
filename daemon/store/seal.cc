#include "daemon/store/seal.h"

#include <zlib.h>

#include <cstdint>

#include "absl/strings/string_view.h"
#include "daemon/store/bytes.h"
#include "daemon/store/rocks_status.h"

namespace foreshock::store {
namespace {

uint32_t Checksum(absl::string_view key, absl::string_view row) {
  const auto bytes = [](absl::string_view text) {
    return reinterpret_cast<const Bytef*>(text.data());
  };
  const uLong crc = crc32_z(0, bytes(key), key.size());
  return static_cast<uint32_t>(crc32_z(crc, bytes(row), row.size()));
}

}  // namespace

absl::Status PutRow(rocksdb::ColumnFamilyHandle* family, const std::string& key, std::string row,
                    rocksdb::WriteBatch* batch) {
  Seal(key, &row);
  return FromRocks(batch->Put(family, key, row), "store: cannot batch a row");
}

void Seal(absl::string_view key, std::string* row) {
  PutFixed(Checksum(key, *row), kSealBytes, row);
}

bool Unseal(absl::string_view key, absl::string_view* row) {
  if (row->size() < kSealBytes) return false;
  absl::string_view seal = row->substr(row->size() - kSealBytes);
  row->remove_suffix(kSealBytes);
  uint64_t expected = 0;
  return TakeFixed(kSealBytes, &seal, &expected) && expected == Checksum(key, *row);
}

}  // namespace foreshock::store
