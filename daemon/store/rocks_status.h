// Turns RocksDB's statuses into absl::Status, by what the caller should do next.
//
//   FORESHOCK_RETURN_IF_ERROR(FromRocks(db->Flush({}), "store: cannot flush"));
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rocksdb/status.h"

namespace foreshock::store {

// ResourceExhausted: no space, quota or file size left; try again later. Unavailable: the medium is
// read-only or fails. DataLoss: bytes are not those that were written. Internal: the rest.
absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what);

// The same for an errno.
absl::Status FromErrno(int error, absl::string_view what);

// DataLoss that names the row: "store: corrupt chunk in family chunks, key 00000001...: 9 bytes".
absl::Status CorruptRow(absl::string_view family, absl::string_view key, absl::string_view what,
                        absl::string_view value);
// The same for a row that does not match its checksum.
absl::Status WrongChecksum(absl::string_view family, absl::string_view key,
                           absl::string_view value);

}  // namespace foreshock::store
