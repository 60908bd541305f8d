// One consistent look at the database: everything read through it is of the same moment.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder));
//   FORESHOCK_ASSIGN_OR_RETURN(const uint32_t run, view.RunId("exp-42"));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/model/rows.pb.h"
#include "daemon/store/database.h"
#include "google/protobuf/message_lite.h"
#include "rocksdb/snapshot.h"

namespace foreshock::store {

// Holds a lease of the database and a snapshot. Thread-compatible.
class ReadView {
 public:
  // More: true, stop: false, or why the row cannot be read.
  using Visit =
      absl::FunctionRef<absl::StatusOr<bool>(std::string_view key, std::string_view value)>;

  static absl::StatusOr<ReadView> Of(const DatabaseHolder& holder);
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

 private:
  explicit ReadView(DatabaseHolder::Lease lease);

  // The same, after the damage that it may tell of was counted.
  absl::Status Noted(absl::Status status) const {
    lease_->damage().Note(status);
    return status;
  }

  DatabaseHolder::Lease lease_;
  std::unique_ptr<rocksdb::ManagedSnapshot> snapshot_;  // goes before the lease
};

// The NotFound of a run, with the names there are (the first 20).
absl::Status NoSuchRun(const std::string& run, const std::vector<std::string>& names);

// Parses one row's message; DataLoss naming the key.
absl::Status ParseRow(Family family, std::string_view key, std::string_view value,
                      google::protobuf::MessageLite* message);

}  // namespace foreshock::store
