// A consistent view of the database: everything that is read through it is of the same moment.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder));
//   FORESHOCK_ASSIGN_OR_RETURN(const uint32_t run, view.RunId("exp-42"));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/rows.pb.h"
#include "daemon/store/database_holder.h"
#include "google/protobuf/message_lite.h"
#include "rocksdb/iterator.h"
#include "rocksdb/snapshot.h"

namespace foreshock::store {

// Holds a lease of the database and a snapshot. It checks the checksum of each value and cuts it
// off: DataLoss names the family and key of a value that does not match. Thread-compatible.
class ReadView {
 public:
  // Returns true for more, false to stop, or why the row cannot be read.
  using Visit =
      absl::FunctionRef<absl::StatusOr<bool>(absl::string_view key, absl::string_view value)>;

  static absl::StatusOr<ReadView> Of(const DatabaseHolder& holder);
  // A view of a database that outlives it.
  static ReadView Of(const Database& database);
  ReadView(ReadView&&) = default;

  absl::StatusOr<std::optional<std::string>> Get(Family family, const std::string& key) const;
  // Visits rows with begin <= key < end, in key order; an empty `end` is no bound.
  absl::Status Scan(Family family, const std::string& begin, const std::string& end,
                    Visit visit) const;
  absl::Status ScanPrefix(Family family, const std::string& prefix, Visit visit) const;

  // Visits all runs, by name; an error of the visitor ends the scan.
  absl::Status ScanRuns(
      absl::FunctionRef<absl::Status(uint32_t id, const model::RunRow& row)> visit) const;
  struct StoredRun {
    uint32_t id = 0;
    model::RunRow row{};
  };
  // NotFound names the runs there are.
  absl::StatusOr<StoredRun> FindRun(const std::string& name) const;
  absl::StatusOr<uint32_t> RunId(const std::string& name) const;
  absl::StatusOr<std::vector<model::AttemptRow>> Attempts(uint32_t run) const;

  const Database& database() const { return *lease_; }

 private:
  friend class RowIterator;
  explicit ReadView(DatabaseHolder::Lease lease);

  DatabaseHolder::Lease lease_;
  std::unique_ptr<rocksdb::ManagedSnapshot> snapshot_;  // goes before the lease
};

// Moves back and forth over the rows of a family that begin with a prefix. To read many places it
// is cheaper than many scans. Must not outlive its view. Thread-compatible.
class RowIterator {
 public:
  RowIterator(const ReadView& view, Family family, const std::string& prefix);
  RowIterator(const RowIterator&) = delete;
  RowIterator& operator=(const RowIterator&) = delete;

  void Seek(const std::string& key) { it_->Seek(key); }             // first row not before `key`
  void SeekBack(const std::string& key) { it_->SeekForPrev(key); }  // last row not after `key`
  void SeekToLast() { it_->SeekToLast(); }
  void Next() { it_->Next(); }

  bool Valid() const { return it_->Valid(); }
  absl::string_view key() const { return {it_->key().data(), it_->key().size()}; }
  // The value without its checksum, as ReadView gives it.
  absl::StatusOr<absl::string_view> Value() const;
  // Says why it is not valid; OK at the end.
  absl::Status status() const;

 private:
  DamageWatch* const damage_;
  const Family family_;
  const std::string begin_;
  const std::string end_;
  const rocksdb::Slice lower_;
  const rocksdb::Slice upper_;
  std::unique_ptr<rocksdb::Iterator> it_;
};

// NotFound that names the runs there are, the first 20 of them.
absl::Status NoSuchRun(const std::string& run, const std::vector<std::string>& names);

// Parses the message of one row; DataLoss names the key.
absl::Status ParseRow(Family family, absl::string_view key, absl::string_view value,
                      google::protobuf::MessageLite* message);

// Reads all rows of `default` with this prefix.
template <typename Row>
absl::StatusOr<std::vector<Row>> ReadRows(const ReadView& view, const std::string& prefix) {
  std::vector<Row> rows;
  FORESHOCK_RETURN_IF_ERROR(view.ScanPrefix(
      Family::kRows, prefix,
      [&rows](absl::string_view key, absl::string_view value) -> absl::StatusOr<bool> {
        FORESHOCK_RETURN_IF_ERROR(ParseRow(Family::kRows, key, value, &rows.emplace_back()));
        return true;
      }));
  return rows;
}

// Reads the row of `default` under this key; nullopt: there is none.
template <typename Row>
absl::StatusOr<std::optional<Row>> ReadRow(const ReadView& view, const std::string& key) {
  std::optional<Row> row;
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> value, view.Get(Family::kRows, key));
  if (!value.has_value()) return row;
  FORESHOCK_RETURN_IF_ERROR(ParseRow(Family::kRows, key, *value, &row.emplace()));
  return row;
}

}  // namespace foreshock::store
