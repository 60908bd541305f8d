#include "daemon/store/read_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"

namespace foreshock::store {
namespace {

absl::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// Counts the damage that the status tells of, and returns the status.
absl::Status Noted(DamageWatch* damage, absl::Status status) {
  damage->Note(status);
  return status;
}

absl::StatusOr<absl::string_view> Unsealed(DamageWatch* damage, Family family,
                                           absl::string_view key, absl::string_view value) {
  absl::string_view row = value;
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
  FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view row,
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
    const absl::string_view key = View(it->key());
    FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view row,
                               Unsealed(&lease_->damage(), family, key, View(it->value())));
    FORESHOCK_ASSIGN_OR_RETURN(const bool more, visit(key, row));
    if (!more) return absl::OkStatus();
  }
  return Noted(&lease_->damage(), FromRocks(it->status(), absl::StrCat("store: cannot scan family ",
                                                                       FamilyName(family))));
}

absl::Status ReadView::ScanPrefix(Family family, const std::string& prefix, Visit visit) const {
  return Scan(family, prefix, PrefixEnd(prefix), visit);
}

absl::Status ReadView::ScanRuns(
    absl::FunctionRef<absl::Status(uint32_t id, const model::RunRow& row)> visit) const {
  return ScanPrefix(Family::kRows, KindPrefix(kStoreRun, RowKind::kRun),
                    [&](absl::string_view key, absl::string_view value) -> absl::StatusOr<bool> {
                      uint32_t id = 0;
                      model::RunRow row;
                      if (!DecodeRun(value, &id, &row)) {
                        return CorruptRow(FamilyName(Family::kRows), key, "run row", value);
                      }
                      FORESHOCK_RETURN_IF_ERROR(visit(id, row));
                      return true;
                    });
}

absl::StatusOr<ReadView::StoredRun> ReadView::FindRun(const std::string& name) const {
  const std::string key = RunKey(name);
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> value, Get(Family::kRows, key));
  if (value.has_value()) {
    StoredRun run;
    if (DecodeRun(*value, &run.id, &run.row)) return run;
    return CorruptRow(FamilyName(Family::kRows), key, "run row", *value);
  }
  std::vector<std::string> names;
  FORESHOCK_RETURN_IF_ERROR(ScanRuns([&names](uint32_t, const model::RunRow& row) {
    names.push_back(row.name());
    return absl::OkStatus();
  }));
  return NoSuchRun(name, names);
}

absl::StatusOr<uint32_t> ReadView::RunId(const std::string& name) const {
  FORESHOCK_ASSIGN_OR_RETURN(const StoredRun run, FindRun(name));
  return run.id;
}

absl::StatusOr<std::vector<model::AttemptRow>> ReadView::Attempts(uint32_t run) const {
  return ReadRows<model::AttemptRow>(*this, KindPrefix(run, RowKind::kAttempt));
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

absl::StatusOr<absl::string_view> RowIterator::Value() const {
  return Unsealed(damage_, family_, key(), View(it_->value()));
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

absl::Status ParseRow(Family family, absl::string_view key, absl::string_view value,
                      google::protobuf::MessageLite* message) {
  if (message->ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return absl::OkStatus();
  }
  return CorruptRow(FamilyName(family), key, message->GetTypeName(), value);
}

}  // namespace foreshock::store
