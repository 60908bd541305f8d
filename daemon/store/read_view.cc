#include "daemon/store/read_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"

namespace foreshock::store {
namespace {

std::string_view StdView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// The same, after the damage that it may tell of was counted.
absl::Status Noted(DamageWatch* damage, absl::Status status) {
  damage->Note(status);
  return status;
}

absl::StatusOr<std::string_view> Unsealed(DamageWatch* damage, Family family, std::string_view key,
                                          std::string_view value) {
  std::string_view row = value;
  if (!Unseal(key, &row)) {
    return Noted(damage, WrongChecksum(FamilyName(family), key, value));
  }
  return row;
}

}  // namespace

ReadView::ReadView(DatabaseHolder::Lease lease)
    : lease_(std::move(lease)),
      snapshot_(std::make_unique<rocksdb::ManagedSnapshot>(lease_->db())) {}

absl::StatusOr<ReadView> ReadView::Of(const DatabaseHolder& holder) {
  FORESHOCK_ASSIGN_OR_RETURN(DatabaseHolder::Lease lease, holder.Acquire());
  return ReadView(std::move(lease));
}

ReadView ReadView::Of(const Database& database) {
  return ReadView(DatabaseHolder::Lease(nullptr, &database));
}

absl::StatusOr<std::optional<std::string>> ReadView::Get(Family family,
                                                         const std::string& key) const {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_->snapshot();
  std::string value;
  const rocksdb::Status got = lease_->db()->Get(options, lease_->family(family), key, &value);
  if (got.IsNotFound()) return std::nullopt;
  if (!got.ok()) {
    return Noted(&lease_->damage(),
                 FromRocks(got, absl::StrCat("store: cannot read family ", FamilyName(family))));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::string_view row,
                             Unsealed(&lease_->damage(), family, key, value));
  value.resize(row.size());
  return value;
}

absl::Status ReadView::Scan(Family family, const std::string& begin, const std::string& end,
                            Visit visit) const {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_->snapshot();
  const rocksdb::Slice upper(end);
  if (!end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> it(
      lease_->db()->NewIterator(options, lease_->family(family)));
  for (it->Seek(begin); it->Valid(); it->Next()) {
    const std::string_view key = StdView(it->key());
    FORESHOCK_ASSIGN_OR_RETURN(const std::string_view row,
                               Unsealed(&lease_->damage(), family, key, StdView(it->value())));
    FORESHOCK_ASSIGN_OR_RETURN(const bool more, visit(key, row));
    if (!more) return absl::OkStatus();
  }
  return Noted(&lease_->damage(), FromRocks(it->status(), absl::StrCat("store: cannot scan family ",
                                                                       FamilyName(family))));
}

absl::Status ReadView::ScanPrefix(Family family, const std::string& prefix, Visit visit) const {
  return Scan(family, prefix, PrefixEnd(prefix), visit);
}

absl::StatusOr<std::optional<uint32_t>> ReadView::FindRun(const std::string& run) const {
  const std::string key = RunKey(run);
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> row, Get(Family::kRows, key));
  if (!row.has_value()) return std::nullopt;
  uint32_t id = 0;
  model::RunRow ignored;
  if (!DecodeRun(*row, &id, &ignored)) {
    return CorruptRow(FamilyName(Family::kRows), key, "run row", *row);
  }
  return id;
}

absl::StatusOr<uint32_t> ReadView::RunId(const std::string& run) const {
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<uint32_t> id, FindRun(run));
  if (id.has_value()) return *id;
  std::vector<std::string> names;
  FORESHOCK_RETURN_IF_ERROR(
      ScanPrefix(Family::kRows, KindPrefix(kStoreRun, RowKind::kRun),
                 [&names](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                   std::string name;
                   if (!DecodeRunKey(key, &name)) {
                     return CorruptRow(FamilyName(Family::kRows), key, "run key", value);
                   }
                   names.push_back(std::move(name));
                   return true;
                 }));
  return NoSuchRun(run, names);
}

absl::StatusOr<std::vector<model::AttemptRow>> ReadView::Attempts(uint32_t run) const {
  std::vector<model::AttemptRow> rows;
  FORESHOCK_RETURN_IF_ERROR(ScanPrefix(
      Family::kRows, KindPrefix(run, RowKind::kAttempt),
      [&rows](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
        FORESHOCK_RETURN_IF_ERROR(ParseRow(Family::kRows, key, value, &rows.emplace_back()));
        return true;
      }));
  return rows;
}

RowIterator::RowIterator(const ReadView& view, Family family, const std::string& prefix)
    : damage_(&view.lease_->damage()),
      family_(family),
      begin_(prefix),
      end_(PrefixEnd(prefix)),
      lower_(begin_),
      upper_(end_) {
  rocksdb::ReadOptions options;
  options.snapshot = view.snapshot_->snapshot();
  options.iterate_lower_bound = &lower_;
  if (!end_.empty()) options.iterate_upper_bound = &upper_;
  it_.reset(view.lease_->db()->NewIterator(options, view.lease_->family(family)));
}

absl::StatusOr<std::string_view> RowIterator::Value() const {
  return Unsealed(damage_, family_, key(), StdView(it_->value()));
}

absl::Status RowIterator::status() const {
  return Noted(damage_, FromRocks(it_->status(),
                                  absl::StrCat("store: cannot read family ", FamilyName(family_))));
}

absl::Status NoSuchRun(const std::string& run, const std::vector<std::string>& names) {
  constexpr size_t kNamesShown = 20;
  const size_t shown = std::min(names.size(), kNamesShown);
  std::string list =
      names.empty()
          ? "there are none"
          : absl::StrCat("there are: ", absl::StrJoin(names.begin(), names.begin() + shown, ", "));
  if (shown < names.size()) absl::StrAppend(&list, " and ", names.size() - shown, " more");
  return absl::NotFoundError(absl::StrCat("no run \"", run, "\"; ", list));
}

absl::Status ParseRow(Family family, std::string_view key, std::string_view value,
                      google::protobuf::MessageLite* message) {
  if (message->ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return absl::OkStatus();
  }
  return CorruptRow(FamilyName(family), key, message->GetTypeName(), value);
}

}  // namespace foreshock::store
