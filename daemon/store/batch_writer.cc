#include "daemon/store/batch_writer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/retention_facts.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/rounding.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"

namespace foreshock::store {
namespace {

// About 30 MB. A run with more series is then the only one whose series are cached.
constexpr size_t kCachedSeriesMax = 200'000;

absl::Status Batched(const rocksdb::Status& status) {
  return FromRocks(status, "store: cannot batch a deletion");
}

absl::Status PutMessage(rocksdb::ColumnFamilyHandle* family, const std::string& key,
                        const google::protobuf::MessageLite& message, rocksdb::WriteBatch* out) {
  std::string row;
  if (!message.SerializeToString(&row)) {
    return absl::InternalError(
        absl::StrCat("store: cannot serialise a ", message.GetTypeName(), ": over 2 GiB"));
  }
  return PutRow(family, key, std::move(row), out);
}

// Sorts by series and keeps of each series the point that was given last.
void SortById(std::vector<HeadPoint>* points) {
  const auto before = [](const HeadPoint& a, const HeadPoint& b) { return a.series < b.series; };
  const auto not_after = [](const HeadPoint& a, const HeadPoint& b) {
    return a.series >= b.series;
  };
  if (std::adjacent_find(points->begin(), points->end(), not_after) == points->end()) return;
  std::stable_sort(points->begin(), points->end(), before);
  size_t kept = 0;
  for (size_t i = 0; i < points->size(); ++i) {
    if (i + 1 < points->size() && (*points)[i + 1].series == (*points)[i].series) continue;
    (*points)[kept++] = (*points)[i];
  }
  points->resize(kept);
}

}  // namespace

BatchWriter::BatchWriter(Precision precision) : precision_(precision), ids_(kCachedSeriesMax) {}

absl::Status BatchWriter::Load(const ReadView& view) {
  open_floor_.clear();
  // Every head has raised RocksDB's own sequence number, so this one is above all that were used.
  next_seq_ = view.database().db()->GetLatestSequenceNumber() + 1;
  return ids_.Load(view);
}

absl::StatusOr<IdTable::RunEntry*> BatchWriter::RunOf(const std::string& name,
                                                      const Database& database,
                                                      rocksdb::WriteBatch* out) {
  if (ids_.FindRun(name) == nullptr) {
    model::RunRow row;
    row.set_name(name);
    FORESHOCK_RETURN_IF_ERROR(ids_.PutRun(row, out, database.family(Family::kRows)));
  }
  return ids_.FindRun(name);
}

absl::Status BatchWriter::Append(const StoreBatch& batch, const ReadView& view,
                                 rocksdb::WriteBatch* out, std::vector<FoldQueue::NewHead>* heads) {
  const Database& database = view.database();
  rocksdb::ColumnFamilyHandle* rows = database.family(Family::kRows);
  for (const model::RunRow& row : batch.runs) {
    FORESHOCK_RETURN_IF_ERROR(ids_.PutRun(row, out, rows));
  }
  for (const auto& [name, row] : batch.attempts) {
    FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(name, database, out));
    FORESHOCK_RETURN_IF_ERROR(PutMessage(rows, AttemptKey(run->id, row.number()), row, out));
  }
  for (const auto& [name, attempt, row] : batch.ranks) {
    FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(name, database, out));
    FORESHOCK_RETURN_IF_ERROR(
        PutMessage(rows, RankKey(run->id, attempt, row.rank(), row.client_instance()), row, out));
  }
  for (const auto& report : batch.reports) {
    FORESHOCK_RETURN_IF_ERROR(AppendReport(report, database, out));
  }
  for (const auto& settled : batch.settled_steps) {
    FORESHOCK_RETURN_IF_ERROR(AppendSettled(settled, database, out));
  }
  for (const model::ClosedStep& step : batch.steps) {
    FORESHOCK_ASSIGN_OR_RETURN(heads->emplace_back(), AppendStep(step, view, out));
  }
  for (const auto& [name, row] : batch.alerts) {
    FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(name, database, out));
    FORESHOCK_RETURN_IF_ERROR(PutMessage(rows, AlertKey(run->id, row.alert().id()), row, out));
  }
  for (const auto& [name, row] : batch.events) {
    FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(name, database, out));
    const v1::Event& event = row.event();
    FORESHOCK_RETURN_IF_ERROR(
        PutMessage(rows,
                   EventKey(run->id, event.step(), row.attempt(),
                            static_cast<uint32_t>(event.kind()), event.name(), event.detail()),
                   row, out));
  }
  for (const auto& [name, attempt, row] : batch.coactivation) {
    FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(name, database, out));
    FORESHOCK_RETURN_IF_ERROR(
        PutMessage(rows, CoactivationKey(run->id, attempt, row.layer()), row, out));
  }
  for (const auto& [name, row] : batch.judging) {
    FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(name, database, out));
    FORESHOCK_RETURN_IF_ERROR(PutMessage(rows, JudgingKey(run->id), row, out));
  }
  if (batch.silences.has_value()) {
    FORESHOCK_RETURN_IF_ERROR(PutMessage(rows, SilencesKey(), *batch.silences, out));
  }
  return absl::OkStatus();
}

absl::Status BatchWriter::AppendReport(const StoreBatch::OfAttempt<model::ShardReport>& report,
                                       const Database& database, rocksdb::WriteBatch* out) {
  FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(report.run, database, out));
  const model::ShardReport& row = report.row;
  const auto floor = open_floor_.find({run->id, report.attempt});
  if (floor != open_floor_.end()) floor->second = std::min<int64_t>(floor->second, row.step());
  const ReportId id{run->id,    report.attempt,        row.step(),
                    row.rank(), row.client_instance(), row.seq()};
  return PutMessage(database.family(Family::kOpen), ReportKey(id), row, out);
}

absl::Status BatchWriter::AppendSettled(const StoreBatch::OfAttempt<int64_t>& settled,
                                        const Database& database, rocksdb::WriteBatch* out) {
  FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(settled.run, database, out));
  constexpr int64_t kStepMin = std::numeric_limits<int64_t>::min();
  int64_t& floor = open_floor_.try_emplace({run->id, settled.attempt}, kStepMin).first->second;
  if (settled.row < floor) return absl::OkStatus();
  const std::string begin = OpenPrefix(run->id, settled.attempt, floor);
  const std::string end = PrefixEnd(OpenPrefix(run->id, settled.attempt, settled.row));
  if (settled.row < std::numeric_limits<int64_t>::max()) floor = settled.row + 1;
  return Batched(out->DeleteRange(database.family(Family::kOpen), begin, end));
}

absl::StatusOr<FoldQueue::NewHead> BatchWriter::AppendStep(const model::ClosedStep& step,
                                                           const ReadView& view,
                                                           rocksdb::WriteBatch* out) {
  const Database& database = view.database();
  FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry * run, RunOf(step.run, database, out));
  points_.clear();
  ids_.BeginStep(run);
  for (const model::Sample& sample : step.samples) {
    FORESHOCK_RETURN_IF_ERROR(CheckPoint(step, sample));
    FORESHOCK_ASSIGN_OR_RETURN(
        const IdTable::Series* series,
        ids_.FindOrAddSeries(view, run, sample.series, out, database.family(Family::kRows)));
    const double value = precision_ == Precision::kDeclared
                             ? RoundTo(series->precision, sample.value)
                             : sample.value;
    points_.push_back({series->id, value, sample.flags, StoredAs(series->storage, value)});
  }
  SortById(&points_);
  FORESHOCK_RETURN_IF_ERROR(PutRow(database.family(Family::kHeads),
                                   HeadKey({run->id, step.row.attempt, next_seq_++}),
                                   EncodeHead(step.row, points_), out));
  return FoldQueue::NewHead{run->id, points_.size(), run->series};
}

absl::StatusOr<uint64_t> BatchWriter::AppendDeletion(const std::string& name, uint32_t run,
                                                     const Database& database,
                                                     rocksdb::WriteBatch* out) {
  const std::string begin = RunPrefix(run);
  const std::string end = PrefixEnd(begin);
  FORESHOCK_RETURN_IF_ERROR(Batched(out->Delete(database.family(Family::kRows), RunKey(name))));
  for (const Family family : kAllFamilies) {
    FORESHOCK_RETURN_IF_ERROR(Batched(out->DeleteRange(database.family(family), begin, end)));
  }
  const uint64_t series = SeriesOfRun(run);
  ids_.Forget(name);
  absl::erase_if(open_floor_, [run](const auto& floor) { return floor.first.first == run; });
  return series;
}

absl::StatusOr<uint64_t> BatchWriter::AppendEmptying(const std::string& name, uint32_t run,
                                                     const ReadView& view,
                                                     rocksdb::WriteBatch* out) {
  const Database& database = view.database();
  const std::string begin = RunPrefix(run);
  for (const Family family : {Family::kOpen, Family::kHeads, Family::kChunks}) {
    FORESHOCK_RETURN_IF_ERROR(
        Batched(out->DeleteRange(database.family(family), begin, PrefixEnd(begin))));
  }
  rocksdb::ColumnFamilyHandle* const rows = database.family(Family::kRows);
  for (const RowKind kind : {RowKind::kSeries, RowKind::kCoactivation, RowKind::kJudging}) {
    const std::string of_kind = KindPrefix(run, kind);
    FORESHOCK_RETURN_IF_ERROR(Batched(out->DeleteRange(rows, of_kind, PrefixEnd(of_kind))));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run));
  for (const model::AttemptRow& attempt : attempts) {
    if (!attempt.has_last_step()) continue;
    const int64_t end = attempt.last_step() + 1;
    FORESHOCK_ASSIGN_OR_RETURN(const int64_t newest, NewestTime(view, run, attempt));
    FORESHOCK_RETURN_IF_ERROR(PutRow(rows, RetentionKey(run, attempt.number()),
                                     EncodeRetention({end, end, end, newest}), out));
  }
  const uint64_t series = SeriesOfRun(run);
  ids_.ForgetSeries(name);
  absl::erase_if(open_floor_, [run](const auto& floor) { return floor.first.first == run; });
  return series;
}

}  // namespace foreshock::store
