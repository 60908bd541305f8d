#include "daemon/store/rocks_status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace foreshock::store {
namespace {

// A key can be long. Its beginning says run, kind and attempt.
constexpr size_t kKeyBytesShown = 64;

// RocksDB keeps the errno of most failed calls only as text.
bool SaysErrno(const std::string& text, int error) {
  return absl::StrContains(text, std::strerror(error));
}

absl::Status BadRow(absl::string_view what, absl::string_view family, absl::string_view key,
                    absl::string_view value) {
  return absl::DataLossError(absl::StrCat("store: ", what, " in family ", family, ", key ",
                                          absl::BytesToHexString(key.substr(0, kKeyBytesShown)),
                                          key.size() > kKeyBytesShown ? "... (" : " (", key.size(),
                                          " bytes), value of ", value.size(), " bytes"));
}

}  // namespace

absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  const std::string message = absl::StrCat(what, ": ", text);
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit ||
      SaysErrno(text, ENOSPC) || SaysErrno(text, EDQUOT) || SaysErrno(text, EFBIG)) {
    return absl::ResourceExhaustedError(message);
  }
  if (status.IsCorruption()) return absl::DataLossError(message);
  // Incomplete: an earlier failure from which RocksDB is about to recover.
  if (status.IsIOError() || status.IsIncomplete()) return absl::UnavailableError(message);
  return absl::InternalError(message);
}

absl::Status FromErrno(int error, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case 0:
      return absl::OkStatus();
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
      return absl::PermissionDeniedError(message);
    case ENOENT:
      return absl::NotFoundError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status CorruptRow(absl::string_view family, absl::string_view key, absl::string_view what,
                        absl::string_view value) {
  return BadRow(absl::StrCat("corrupt ", what), family, key, value);
}

absl::Status WrongChecksum(absl::string_view family, absl::string_view key,
                           absl::string_view value) {
  return BadRow("wrong checksum", family, key, value);
}

}  // namespace foreshock::store
