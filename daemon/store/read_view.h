// One consistent look at the database: everything read through it is of the same moment.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder));
//   FORESHOCK_ASSIGN_OR_RETURN(const uint32_t run, view.RunId("exp-42"));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/model/rows.pb.h"
#include "daemon/store/database.h"
#include "google/protobuf/message_lite.h"
#include "rocksdb/iterator.h"
#include "rocksdb/snapshot.h"

namespace foreshock::store {

// Holds a lease of the database and a snapshot. Values are handed out without their checksum, which
// has been checked: DataLoss names family and key where it is wrong. Thread-compatible.
class ReadView {
 public:
  // More: true, stop: false, or why the row cannot be read.
  using Visit =
      absl::FunctionRef<absl::StatusOr<bool>(std::string_view key, std::string_view value)>;

  static absl::StatusOr<ReadView> Of(const DatabaseHolder& holder);
  // Of a database that outlives it.
  static ReadView Of(const Database& database);
  ReadView(ReadView&&) = default;

  absl::StatusOr<std::optional<std::string>> Get(Family family, const std::string& key) const;
  // Rows with begin <= key < end, in key order; an empty `end` is no bound.
  absl::Status Scan(Family family, const std::string& begin, const std::string& end,
                    Visit visit) const;
  absl::Status ScanPrefix(Family family, const std::string& prefix, Visit visit) const;

  // Nothing if there is no such run.
  absl::StatusOr<std::optional<uint32_t>> FindRun(const std::string& run) const;
  // NotFound, naming the runs there are.
  absl::StatusOr<uint32_t> RunId(const std::string& run) const;
  absl::StatusOr<std::vector<model::AttemptRow>> Attempts(uint32_t run) const;

  const Database& database() const { return *lease_; }

 private:
  friend class RowIterator;
  explicit ReadView(DatabaseHolder::Lease lease);

  DatabaseHolder::Lease lease_;
  std::unique_ptr<rocksdb::ManagedSnapshot> snapshot_;  // goes before the lease
};

// Goes to and fro over the rows of a family that begin with a prefix; cheaper than a scan each
// where many places are looked at. Must not outlive its view. Thread-compatible.
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
  std::string_view key() const { return {it_->key().data(), it_->key().size()}; }
  // As ReadView's values.
  absl::StatusOr<std::string_view> Value() const;
  // Why it is not valid: OK at the end.
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

// The NotFound of a run, with the names there are (the first 20).
absl::Status NoSuchRun(const std::string& run, const std::vector<std::string>& names);

// Parses one row's message; DataLoss naming the key.
absl::Status ParseRow(Family family, std::string_view key, std::string_view value,
                      google::protobuf::MessageLite* message);

}  // namespace foreshock::store
