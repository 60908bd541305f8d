#include "daemon/store/format.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "rocksdb/db.h"

namespace foreshock::store {
namespace {

absl::Status OtherFormat(const std::string& directory, uint32_t format) {
  return absl::FailedPreconditionError(absl::StrCat(
      "store: ", directory, " has format ", format, "; this program reads and writes format ",
      kFormat, " only: ", format > kFormat ? "use a newer foreshockd" : "use an older foreshockd",
      ", or give another directory"));
}

absl::Status ForeignDatabase(const std::string& directory, absl::string_view found) {
  return absl::FailedPreconditionError(absl::StrCat(
      "store: ", directory, " is no Foreshock store: it is a RocksDB database ", found));
}

// Reads the format row of a database whose families are not ours; nullopt if there is none.
std::optional<uint32_t> PeekFormat(const rocksdb::DBOptions& options,
                                   const std::string& directory) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened =
      rocksdb::DB::OpenForReadOnly(rocksdb::Options(options, {}), directory, &raw);
  const std::unique_ptr<rocksdb::DB> db(raw);
  std::string row;
  uint32_t format = 0;
  if (!opened.ok() || !db->Get({}, FormatKey(), &row).ok() || !DecodeFormat(row, &format)) {
    return std::nullopt;
  }
  return format;
}

absl::Status WriteFormat(const std::string& directory, const Database& database) {
  rocksdb::WriteOptions durable;
  durable.sync = true;
  return FromRocks(database.db()->Put(durable, database.family(Family::kRows), FormatKey(),
                                      EncodeFormat(kFormat)),
                   absl::StrCat("store: cannot write the format row of ", directory));
}

bool IsEmpty(const Database& database) {
  return std::none_of(std::begin(kAllFamilies), std::end(kAllFamilies), [&](Family family) {
    const std::unique_ptr<rocksdb::Iterator> it(
        database.db()->NewIterator({}, database.family(family)));
    it->SeekToFirst();
    return it->Valid() || !it->status().ok();
  });
}

}  // namespace

absl::Status CheckFamilies(const rocksdb::DBOptions& options, const std::string& directory,
                           const std::vector<std::string>& families) {
  const bool known = std::all_of(families.begin(), families.end(), [](const std::string& name) {
    return std::any_of(std::begin(kAllFamilies), std::end(kAllFamilies),
                       [&](Family family) { return FamilyName(family) == name; });
  });
  if (known) return absl::OkStatus();
  const std::optional<uint32_t> format = PeekFormat(options, directory);
  if (format.has_value() && *format != kFormat) return OtherFormat(directory, *format);
  return ForeignDatabase(directory,
                         absl::StrCat("with the families ", absl::StrJoin(families, ", ")));
}

absl::Status CheckFormat(const StoreOptions& options, const Database& database) {
  std::string row;
  const rocksdb::Status got =
      database.db()->Get({}, database.family(Family::kRows), FormatKey(), &row);
  if (got.IsNotFound()) {
    if (options.read_only || !IsEmpty(database)) {
      return ForeignDatabase(options.directory, "without a format row");
    }
    return WriteFormat(options.directory, database);
  }
  if (!got.ok()) {
    return FromRocks(got, absl::StrCat("store: cannot read the format of ", options.directory));
  }
  uint32_t format = 0;
  if (!DecodeFormat(row, &format)) {
    return CorruptRow(FamilyName(Family::kRows), FormatKey(), "format row", row);
  }
  return format == kFormat ? absl::OkStatus() : OtherFormat(options.directory, format);
}

}  // namespace foreshock::store
