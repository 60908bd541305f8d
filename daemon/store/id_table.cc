#include "daemon/store/id_table.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"

namespace foreshock::store {
namespace {

constexpr uint32_t kIdMax = std::numeric_limits<uint32_t>::max() - 1;

// Visits (key, id) of the series rows of a run.
absl::Status ScanSeries(const ReadView& view, uint32_t run,
                        absl::FunctionRef<void(model::SeriesKey, uint32_t)> visit) {
  return view.ScanPrefix(
      Family::kRows, KindPrefix(run, RowKind::kSeries),
      [&visit](absl::string_view key, absl::string_view value) -> absl::StatusOr<bool> {
        uint32_t run_of_key = 0;
        uint32_t id = 0;
        model::SeriesKey series;
        if (!DecodeSeriesRowKey(key, &run_of_key, &series) || !DecodeSeriesId(value, &id)) {
          return CorruptRow(FamilyName(Family::kRows), key, "series row", value);
        }
        visit(std::move(series), id);
        return true;
      });
}

}  // namespace

absl::Status IdTable::Load(const ReadView& view) {
  runs_.clear();
  next_run_ = 1;
  series_ = 0;
  cached_series_ = 0;
  FORESHOCK_RETURN_IF_ERROR(view.ScanRuns([this](uint32_t id, const model::RunRow& row) {
    auto entry = std::make_unique<RunEntry>();
    entry->id = id;
    next_run_ = std::max(next_run_, id + 1);
    runs_[row.name()] = std::move(entry);
    return absl::OkStatus();
  }));
  for (auto& [name, run] : runs_) {
    RunEntry* entry = run.get();
    FORESHOCK_RETURN_IF_ERROR(ScanSeries(view, entry->id, [entry](model::SeriesKey, uint32_t id) {
      ++entry->series;
      entry->next_series = std::max(entry->next_series, id + 1);
    }));
    series_ += entry->series;
  }
  return absl::OkStatus();
}

uint32_t IdTable::SeriesOfRun(uint32_t run) const {
  for (const auto& [name, entry] : runs_) {
    if (entry->id == run) return entry->series;
  }
  return 0;
}

IdTable::RunEntry* IdTable::FindRun(const std::string& name) {
  const auto found = runs_.find(name);
  return found == runs_.end() ? nullptr : found->second.get();
}

absl::Status IdTable::PutRun(const model::RunRow& row, rocksdb::WriteBatch* batch,
                             rocksdb::ColumnFamilyHandle* rows) {
  RunEntry* entry = FindRun(row.name());
  if (entry == nullptr) {
    if (next_run_ > kIdMax) return absl::InternalError("store: no run ids are left");
    auto fresh = std::make_unique<RunEntry>();
    fresh->id = next_run_++;
    fresh->by_key.emplace();
    entry = fresh.get();
    runs_[row.name()] = std::move(fresh);
  }
  return PutRow(rows, RunKey(row.name()), EncodeRun(entry->id, row), batch);
}

absl::StatusOr<const IdTable::Series*> IdTable::FindOrAddSeries(const ReadView& view, RunEntry* run,
                                                                const model::SeriesKey& key,
                                                                rocksdb::WriteBatch* batch,
                                                                rocksdb::ColumnFamilyHandle* rows) {
  SeriesByKey::value_type*& expected = run->last == nullptr ? run->first : run->last->second.next;
  if (expected != nullptr && expected->first == key) {
    run->last = expected;
    return &expected->second;
  }
  run->last_used = ++uses_;
  if (!run->by_key.has_value()) FORESHOCK_RETURN_IF_ERROR(LoadSeries(view, run));
  const auto [found, added] = run->by_key->try_emplace(key);
  expected = &*found;
  run->last = &*found;
  Series& series = found->second;
  if (!added) return &series;
  if (run->next_series > kIdMax) return absl::InternalError("store: no series ids are left");
  series.id = run->next_series++;
  series.storage = model::StorageOf(key.indicator);
  series.precision = model::PrecisionOf(key.indicator);
  ++run->series;
  ++series_;
  ++cached_series_;
  FORESHOCK_RETURN_IF_ERROR(
      PutRow(rows, SeriesRowKey(run->id, key), EncodeSeriesId(series.id), batch));
  if (cached_series_ > cached_series_max_) MakeRoom(run);
  return &series;
}

absl::Status IdTable::LoadSeries(const ReadView& view, RunEntry* run) {
  SeriesByKey by_key;
  FORESHOCK_RETURN_IF_ERROR(ScanSeries(view, run->id, [&by_key](model::SeriesKey key, uint32_t id) {
    const Series series{id, model::StorageOf(key.indicator), model::PrecisionOf(key.indicator)};
    by_key.emplace(std::move(key), series);
  }));
  cached_series_ += by_key.size();
  run->by_key = std::move(by_key);
  MakeRoom(run);
  return absl::OkStatus();
}

void IdTable::MakeRoom(const RunEntry* keep) {
  while (cached_series_ > cached_series_max_) {
    RunEntry* oldest = nullptr;
    for (auto& [name, run] : runs_) {
      if (run.get() == keep || !run->by_key.has_value() || run->by_key->empty()) continue;
      if (oldest == nullptr || run->last_used < oldest->last_used) oldest = run.get();
    }
    if (oldest == nullptr) return;
    cached_series_ -= oldest->by_key->size();
    Drop(oldest);
  }
}

void IdTable::Drop(RunEntry* run) {
  run->by_key.reset();
  run->first = nullptr;
  run->last = nullptr;
}

void IdTable::Forget(const std::string& name) {
  const auto found = runs_.find(name);
  if (found == runs_.end()) return;
  series_ -= found->second->series;
  if (found->second->by_key.has_value()) cached_series_ -= found->second->by_key->size();
  runs_.erase(found);
}

void IdTable::ForgetSeries(const std::string& name) {
  RunEntry* run = FindRun(name);
  if (run == nullptr) return;
  series_ -= run->series;
  if (run->by_key.has_value()) cached_series_ -= run->by_key->size();
  Drop(run);
  run->by_key.emplace();
  run->series = 0;
}

}  // namespace foreshock::store
