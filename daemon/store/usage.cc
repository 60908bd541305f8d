#include "daemon/store/usage.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"

namespace foreshock::store {
namespace {

using Usage = StoreUsage;

void AddRow(absl::string_view key, absl::string_view value, Usage::Rows* rows) {
  ++rows->rows;
  rows->bytes += key.size() + value.size() + kSealBytes;
}

uint64_t IntProperty(const Database& database, Family family, const std::string& name) {
  uint64_t value = 0;
  database.db()->GetIntProperty(database.family(family), name, &value);
  return value;
}

void AddTimes(const model::StepRow& step, Usage::Run* run) {
  run->first_step = std::min(run->first_step.value_or(step.step), step.step);
  run->last_step = std::max(run->last_step.value_or(step.step), step.step);
  const int64_t time = step.time_unix_ns;
  if (time == 0) return;
  run->oldest_unix_ns = run->oldest_unix_ns == 0 ? time : std::min(run->oldest_unix_ns, time);
  run->newest_unix_ns = std::max(run->newest_unix_ns, time);
}

bool AddHead(absl::string_view bytes, Usage::Run* run) {
  HeadReader head;
  if (!head.Open(bytes)) return false;
  ++run->open_steps;
  run->open_points += head.points();
  AddTimes(head.row(), run);
  return true;
}

bool AddChunk(absl::string_view key, absl::string_view bytes, Usage::Run* run) {
  ChunkId id;
  if (!DecodeChunkKey(key, &id)) return false;
  uint32_t count = 0;
  ChunkSummary summary;
  std::vector<model::StepRow> steps;
  switch (KindOf(bytes)) {
    case ChunkKind::kPoints:
      AddRow(key, bytes, &run->raw);
      if (!DecodeChunkCount(bytes, &count)) return false;
      run->raw_points += count;
      return true;
    case ChunkKind::kDownsampled:
      AddRow(key, bytes, &run->downsampled);
      if (!DecodeChunkSummary(bytes, id.window.first, &summary)) return false;
      run->downsampled_points += summary.count;
      return true;
    case ChunkKind::kSteps:
      AddRow(key, bytes, &run->steps);
      if (!DecodeStepChunk(bytes, id.window.first, &steps)) return false;
      run->step_rows += steps.size();
      for (const model::StepRow& step : steps) AddTimes(step, run);
      return true;
    case ChunkKind::kNone:
      return false;
  }
  return false;
}

bool AddFact(absl::string_view key, absl::string_view value, Usage::Run* run) {
  const auto kind = static_cast<RowKind>(key[4]);
  if (kind == RowKind::kSeries) ++run->series;
  if (kind == RowKind::kAttempt) ++run->attempts;
  if (kind == RowKind::kRetention) {
    RetentionRow row;
    if (!DecodeRetention(value, &row)) return false;
    run->raw_from = std::max(run->raw_from.value_or(row.raw_from), row.raw_from);
  }
  return true;
}

}  // namespace

uint64_t LiveBytes(const Database& database) {
  uint64_t bytes = 0;
  for (const Family family : kAllFamilies) {
    bytes += IntProperty(database, family, rocksdb::DB::Properties::kLiveSstFilesSize) +
             IntProperty(database, family, rocksdb::DB::Properties::kCurSizeAllMemTables);
  }
  return bytes;
}

uint64_t RunBytes(const Database& database, uint32_t run) {
  const std::string begin = RunPrefix(run);
  const std::string end = PrefixEnd(begin);
  const rocksdb::Range range(begin, end);
  rocksdb::SizeApproximationOptions options;
  options.files_size_error_margin = 0.01;
  uint64_t bytes = 0;
  for (const Family family : kAllFamilies) {
    uint64_t of_family = 0;
    database.db()->GetApproximateSizes(options, database.family(family), &range, 1, &of_family);
    bytes += of_family;
  }
  return bytes;
}

absl::StatusOr<StoreUsage> ReadUsage(const ReadView& view) {
  StoreUsage usage;
  std::map<uint32_t, Usage::Run> runs;
  FORESHOCK_RETURN_IF_ERROR(view.ScanRuns([&](uint32_t id, const model::RunRow& row) {
    Usage::Run& run = runs[id];
    run.name = row.name();
    run.pinned = row.pinned();
    run.families.resize(kFamilies);
    run.disk_bytes = RunBytes(view.database(), id);
    return absl::OkStatus();
  }));
  for (const Family family : kAllFamilies) {
    Usage::Family& total = usage.families.emplace_back();
    total.name = std::string(FamilyName(family));
    total.disk_bytes =
        IntProperty(view.database(), family, rocksdb::DB::Properties::kLiveSstFilesSize);
    total.memory_bytes =
        IntProperty(view.database(), family, rocksdb::DB::Properties::kCurSizeAllMemTables);
    // The format row has no checksum, so the scan of `default` begins behind it.
    const std::string begin = family == Family::kRows ? RunPrefix(kStoreRun + 1) : "";
    FORESHOCK_RETURN_IF_ERROR(
        view.Scan(family, begin, "",
                  [&](absl::string_view key, absl::string_view value) -> absl::StatusOr<bool> {
                    AddRow(key, value, &total.rows);
                    uint32_t id = 0;
                    if (!DecodeRunOfKey(key, &id)) {
                      return CorruptRow(FamilyName(family), key, "key", value);
                    }
                    const auto found = runs.find(id);
                    if (found == runs.end()) return true;
                    Usage::Run& run = found->second;
                    AddRow(key, value, &run.families[static_cast<int>(family)]);
                    const bool good = family == Family::kHeads    ? AddHead(value, &run)
                                      : family == Family::kChunks ? AddChunk(key, value, &run)
                                      : family == Family::kRows   ? AddFact(key, value, &run)
                                                                  : true;
                    if (!good) return CorruptRow(FamilyName(family), key, "row", value);
                    return true;
                  }));
  }
  for (auto& [id, run] : runs) usage.runs.push_back(std::move(run));
  std::sort(usage.runs.begin(), usage.runs.end(),
            [](const Usage::Run& a, const Usage::Run& b) { return a.disk_bytes > b.disk_bytes; });
  return usage;
}

}  // namespace foreshock::store
