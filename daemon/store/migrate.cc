#include "daemon/store/migrate.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/chunk_merger.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/read_view.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {
namespace {

// A batch is written when it has grown to this, or when so many rows of one chunk series are there.
constexpr size_t kMigrationBatchBytes = 4u << 20;
constexpr size_t kRowsAtOnce = 16u << 10;
constexpr uint64_t kRowsPerLogLine = 10'000'000;

// What of format 0 is gone through, in this order. Stored: never renumber.
enum class Stage : uint8_t { kRows = 0, kOpen = 1, kPoints = 2 };

// Points or step rows of one (run, series, attempt) that wait to be put into chunks.
template <typename Rows>
struct Pending {
  ChunkId of{};  // without window
  std::vector<typename Rows::Row> rows{};
};

class Migration {
 public:
  Migration(const Database& database, rocksdb::ColumnFamilyHandle* old_points)
      : database_(database), old_points_(old_points) {}

  absl::Status Run() {
    FORESHOCK_RETURN_IF_ERROR(LoadMark());
    for (const Stage stage : {Stage::kRows, Stage::kOpen, Stage::kPoints}) {
      if (stage < stage_) continue;
      FORESHOCK_RETURN_IF_ERROR(RunStage(stage));
    }
    return absl::OkStatus();
  }
  uint64_t rows() const { return rows_; }

 private:
  rocksdb::ColumnFamilyHandle* FamilyOf(Stage stage) const {
    switch (stage) {
      case Stage::kRows:
        return database_.family(Family::kRows);
      case Stage::kOpen:
        return database_.family(Family::kOpen);
      case Stage::kPoints:
        return old_points_;
    }
    return nullptr;
  }

  absl::Status LoadMark() {
    std::string value;
    const std::string key = MigrationKey();
    const rocksdb::Status got =
        database_.db()->Get({}, database_.family(Family::kRows), key, &value);
    if (got.IsNotFound()) return absl::OkStatus();
    FORESHOCK_RETURN_IF_ERROR(FromRocks(got, "store: cannot read how far the migration came"));
    std::string_view mark = value;
    if (!Unseal(key, &mark) || mark.empty() ||
        static_cast<uint8_t>(mark.front()) > static_cast<uint8_t>(Stage::kPoints)) {
      return CorruptRow(FamilyName(Family::kRows), key, "migration row", value);
    }
    stage_ = static_cast<Stage>(mark.front());
    done_ = std::string(mark.substr(1));
    return absl::OkStatus();
  }

  absl::Status RunStage(Stage stage) {
    stage_ = stage;
    const std::string begin = std::exchange(done_, "");
    const std::unique_ptr<rocksdb::Iterator> it(database_.db()->NewIterator({}, FamilyOf(stage)));
    for (it->Seek(begin); it->Valid(); it->Next()) {
      const std::string key = it->key().ToString();
      if (!begin.empty() && key <= begin) continue;  // the last one that was done
      FORESHOCK_RETURN_IF_ERROR(Migrate(stage, key, it->value().ToString()));
      ++rows_;
      if (rows_ % kRowsPerLogLine == 0) {
        LogInfo("store", absl::StrCat("migrating to format ", kFormat),
                {{"rows", absl::StrCat(rows_)}});
      }
    }
    FORESHOCK_RETURN_IF_ERROR(FromRocks(it->status(), "store: cannot read a store of format 0"));
    FORESHOCK_RETURN_IF_ERROR(MergeAll());
    // The next stage begins with its first row.
    stage_ = static_cast<Stage>(static_cast<uint8_t>(stage) + 1);
    done_.clear();
    return stage == Stage::kPoints ? Write() : Commit();
  }

  absl::Status Migrate(Stage stage, const std::string& key, std::string value) {
    if (stage == Stage::kPoints) {
      PointId id;
      ChunkPoint point;
      std::string_view row = value;
      if (!DecodePointKey(key, &id) || !TakePoint(&row, &point.value, &point.flags) ||
          !row.empty()) {
        return CorruptRow("points", key, "point", value);
      }
      point.step = id.step;
      return Add({id.run, id.series, id.attempt}, point, key, &points_);
    }
    if (key == FormatKey() || key == MigrationKey()) return absl::OkStatus();
    if (stage == Stage::kRows && IsStepKey(key)) {
      StepId id;
      StepRow step;
      std::string_view row = value;
      if (!DecodeStepKey(key, &id) || !TakeStep(&row, &step) || !row.empty()) {
        return CorruptRow("default", key, "step row", value);
      }
      step.step = id.step;
      FORESHOCK_RETURN_IF_ERROR(Add({id.run, kStepTable, id.attempt}, step, key, &steps_));
      return FromRocks(batch_.Delete(FamilyOf(stage), key), "store: cannot batch a deletion");
    }
    // Rows that wait come before this one, which the mark must not overtake.
    FORESHOCK_RETURN_IF_ERROR(MergeAll());
    FORESHOCK_RETURN_IF_ERROR(PutRow(FamilyOf(stage), key, std::move(value), &batch_));
    done_ = key;
    return batch_.GetDataSize() < kMigrationBatchBytes ? absl::OkStatus() : Commit();
  }

  static bool IsStepKey(std::string_view key) {
    constexpr size_t kRunBytes = 4;
    return key.size() > kRunBytes && key[kRunBytes] == static_cast<char>(RowKind::kStep) &&
           key.substr(0, kRunBytes) != RunPrefix(kStoreRun);
  }

  template <typename Rows>
  absl::Status Add(const ChunkId& of, const typename Rows::Row& row, const std::string& key,
                   Pending<Rows>* pending) {
    const bool full = pending->rows.size() >= kRowsAtOnce;
    if (!pending->rows.empty() && (full || !(pending->of == of))) {
      FORESHOCK_RETURN_IF_ERROR(Merge(pending));
      // More rows of the same chunks must see these.
      if (full || batch_.GetDataSize() >= kMigrationBatchBytes) FORESHOCK_RETURN_IF_ERROR(Commit());
    }
    pending->of = of;
    pending->rows.push_back(row);
    last_added_ = key;
    return absl::OkStatus();
  }

  absl::Status MergeAll() {
    FORESHOCK_RETURN_IF_ERROR(Merge(&steps_));
    return Merge(&points_);
  }

  template <typename Rows>
  absl::Status Merge(Pending<Rows>* pending) {
    if (pending->rows.empty()) return absl::OkStatus();
    const ReadView view = ReadView::Of(database_);
    ChunkMerger<Rows> merger(view, pending->of.run, pending->of.attempt, pending->rows.back().step,
                             &batch_);
    FORESHOCK_RETURN_IF_ERROR(merger.Merge(pending->of.series, pending->rows));
    pending->rows.clear();
    done_ = last_added_;
    return absl::OkStatus();
  }

  absl::Status Commit() {
    std::string mark(1, static_cast<char>(stage_));
    mark += done_;
    FORESHOCK_RETURN_IF_ERROR(
        PutRow(database_.family(Family::kRows), MigrationKey(), std::move(mark), &batch_));
    return Write();
  }

  absl::Status Write() {
    const rocksdb::Status written = database_.db()->Write({}, &batch_);
    batch_.Clear();
    return FromRocks(written,
                     absl::StrCat("store: cannot write while migrating to format ", kFormat));
  }

  const Database& database_;
  rocksdb::ColumnFamilyHandle* const old_points_;
  Stage stage_ = Stage::kRows;
  std::string done_;        // key of the last row of the stage that is in the batch or written
  std::string last_added_;  // key of the last row that waits
  rocksdb::WriteBatch batch_;
  Pending<StepRows> steps_;
  Pending<PointRows> points_;
  uint64_t rows_ = 0;
};

}  // namespace

absl::Status MigrateFormat0(const std::string& directory, const Database& database,
                            rocksdb::ColumnFamilyHandle* old_points) {
  LogInfo("store", absl::StrCat("migrating from format 0 to format ", kFormat),
          {{"directory", directory}});
  Migration migration(database, old_points);
  FORESHOCK_RETURN_IF_ERROR(migration.Run());
  LogInfo("store", "migrated",
          {{"directory", directory}, {"rows", absl::StrCat(migration.rows())}});
  return absl::OkStatus();
}

}  // namespace foreshock::store
