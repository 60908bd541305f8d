// RocksDB's verdicts in absl::Status, by what the caller does next.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rocksdb/status.h"

namespace foreshock::store {

// ResourceExhausted: no space (or quota, or file size limit), try again later. Unavailable: the
// medium is read-only or fails. DataLoss: bytes that are not what was written. Internal: the rest.
absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what);

// The same for an errno.
absl::Status FromErrno(int error, absl::string_view what);

// DataLoss that names the row: "store: corrupt chunk in family chunks, key 00000001...: 9 bytes".
absl::Status CorruptRow(absl::string_view family, std::string_view key, absl::string_view what,
                        std::string_view value);
// The same of a row that does not bear out its checksum.
absl::Status WrongChecksum(absl::string_view family, std::string_view key, std::string_view value);

// An absl::string_view of a std::string_view or rocksdb::Slice.
template <typename Bytes>
absl::string_view AbslView(const Bytes& bytes) {
  return absl::string_view(bytes.data(), bytes.size());
}

}  // namespace foreshock::store
