#include "daemon/store/verify.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/shards.pb.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/read_view.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/metadata.h"
#include "rocksdb/sst_file_reader.h"

namespace foreshock::store {
namespace {

constexpr absl::Duration kTellEvery = absl::Milliseconds(200);
constexpr uint64_t kRowsPerTell = 4096;
constexpr size_t kFileBlock = 1u << 20;

std::string SeriesInWords(const model::SeriesKey& key) {
  std::string text = absl::StrCat("series ", key.indicator);
  if (key.layer != model::kNoLayer) absl::StrAppend(&text, " layer ", key.layer);
  if (key.unit != model::Unit::kNone)
    absl::StrAppend(&text, " ", model::UnitName(key.unit), " ", key.unit_id);
  if (!key.unit_name.empty()) absl::StrAppend(&text, " ", key.unit_name);
  return text;
}

std::string StepsInWords(Window window) {
  return absl::StrCat("steps ", window.first, " to ", window.last());
}

// Names a kind of row of the family `default`.
std::string KindInWords(char kind) {
  switch (static_cast<RowKind>(kind)) {
    case RowKind::kFormat:
      return "format row";
    case RowKind::kRun:
      return "run row";
    case RowKind::kAttempt:
      return "attempt row";
    case RowKind::kRank:
      return "rank row";
    case RowKind::kAlert:
      return "alert row";
    case RowKind::kEvent:
      return "event row";
    case RowKind::kCoactivation:
      return "coactivation row";
    case RowKind::kJudging:
      return "judging row";
    case RowKind::kSeries:
      return "series row";
    case RowKind::kRetention:
      return "retention row";
    case RowKind::kSilences:
      return "row of the silences";
  }
  return absl::StrCat("row of the unknown kind ", static_cast<int>(kind));
}

class Verifier {
 public:
  Verifier(const Database& database, const VerifyCallbacks& callbacks)
      : database_(database), view_(ReadView::Of(database)), callbacks_(callbacks) {}

  absl::StatusOr<VerifyResult> Run();

 private:
  struct RunRows {
    std::string name{};
    std::set<uint32_t> attempts{};
    std::map<uint32_t, int64_t> raw_from{};         // by attempt
    std::map<uint32_t, model::SeriesKey> series{};  // by id
  };
  // A row that has been read; complaints name it.
  struct Row {
    Family family = Family::kRows;
    absl::string_view key{};
    absl::string_view value{};
  };

  absl::Status CheckFiles();
  absl::Status CheckFile(const rocksdb::LiveFileMetaData& file);
  absl::Status CheckRows(Family family);
  void CheckRow(const Row& row);
  void CheckFact(const Row& row);
  void CheckRunRow(const Row& row);
  void CheckReport(const Row& row);
  void CheckHead(const Row& row);
  void CheckChunk(const Row& row);
  void CheckPoints(const Row& row, const ChunkId& id);
  void CheckParts(const Row& row, const ChunkId& id);
  void CheckSteps(const Row& row, const ChunkId& id);

  // Returns the run of a row; complains and returns nullptr if there is none.
  const RunRows* RunOf(const Row& row);
  bool KnowsAttempt(const Row& row, const RunRows& run, uint32_t attempt);
  // Parses the row's message; complains if it is none.
  bool Parse(const Row& row, google::protobuf::MessageLite* message);
  void Expect(bool good, const Row& row, absl::string_view complaint);
  void Complain(const Row& row, absl::string_view what);
  void Complain(VerifyFinding finding);
  std::string InWords(Family family, absl::string_view key) const;
  absl::Status Tell(absl::string_view stage, uint64_t done, uint64_t total);

  const Database& database_;
  const ReadView view_;
  const VerifyCallbacks& callbacks_;
  VerifyResult result_;
  absl::Time next_tell_ = absl::InfinitePast();
  std::map<uint32_t, RunRows> runs_;
  std::optional<ChunkId> chunk_before_;
};

absl::StatusOr<VerifyResult> Verifier::Run() {
  FORESHOCK_RETURN_IF_ERROR(CheckFiles());
  // `default` comes first: the rows of the other families are compared with its rows.
  for (const Family family : kAllFamilies) FORESHOCK_RETURN_IF_ERROR(CheckRows(family));
  return result_;
}

absl::Status Verifier::Tell(absl::string_view stage, uint64_t done, uint64_t total) {
  const absl::Time now = base::SteadyNow();
  if (now < next_tell_ || callbacks_.progress == nullptr) return absl::OkStatus();
  next_tell_ = now + kTellEvery;
  if (callbacks_.progress({std::string(stage), done, std::max(done, total)})) {
    return absl::OkStatus();
  }
  return absl::CancelledError("verify: told to stop");
}

void Verifier::Complain(VerifyFinding finding) {
  ++result_.findings;
  if (callbacks_.finding != nullptr) callbacks_.finding(finding);
}

void Verifier::Complain(const Row& row, absl::string_view what) {
  Complain(
      {std::string(FamilyName(row.family)), "", InWords(row.family, row.key), std::string(what)});
}

void Verifier::Expect(bool good, const Row& row, absl::string_view complaint) {
  if (!good) Complain(row, complaint);
}

std::string Verifier::InWords(Family family, absl::string_view key) const {
  const std::string hex = absl::StrCat("key ", absl::BytesToHexString(key.substr(0, 64)));
  uint32_t id = 0;
  if (!DecodeRunOfKey(key, &id)) return hex;
  const auto run = runs_.find(id);
  std::string text =
      run == runs_.end() ? absl::StrCat("run number ", id) : absl::StrCat("run ", run->second.name);
  ChunkId chunk;
  HeadId head;
  ReportId report;
  model::SeriesKey series;
  std::string name;
  if (id == kStoreRun) {
    return absl::StrCat(KindInWords(key[4]),
                        DecodeRunKey(key, &name) ? absl::StrCat(" of run ", name) : "", ", ", hex);
  }
  if (family == Family::kRows) {
    absl::StrAppend(&text, ", ", KindInWords(key[4]));
    if (DecodeSeriesRowKey(key, &id, &series)) absl::StrAppend(&text, ", ", SeriesInWords(series));
  } else if (family == Family::kChunks && DecodeChunkKey(key, &chunk)) {
    const bool known = run != runs_.end() && run->second.series.contains(chunk.series);
    absl::StrAppend(&text, ", ",
                    chunk.series == kStepTable ? "step table"
                    : known                    ? SeriesInWords(run->second.series.at(chunk.series))
                                               : absl::StrCat("series number ", chunk.series),
                    ", attempt ", chunk.attempt, ", ", StepsInWords(chunk.window));
  } else if (family == Family::kHeads && DecodeHeadKey(key, &head)) {
    absl::StrAppend(&text, ", attempt ", head.attempt, ", closed step number ", head.seq);
  } else if (family == Family::kOpen && DecodeReportKey(key, &report)) {
    absl::StrAppend(&text, ", attempt ", report.attempt, ", open step ", report.step, ", rank ",
                    report.rank);
  }
  return absl::StrCat(text, ", ", hex);
}

// ---- files

absl::Status Verifier::CheckFiles() {
  std::vector<rocksdb::LiveFileMetaData> files;
  database_.db()->GetLiveFilesMetaData(&files);
  uint64_t total = 0;
  for (const rocksdb::LiveFileMetaData& file : files) total += file.size;
  for (const rocksdb::LiveFileMetaData& file : files) {
    FORESHOCK_RETURN_IF_ERROR(Tell("files", result_.file_bytes, total));
    FORESHOCK_RETURN_IF_ERROR(CheckFile(file));
  }
  return absl::OkStatus();
}

// Returns "" if the file is as it was written.
absl::StatusOr<std::string> FaultOfFile(const std::string& path,
                                        const rocksdb::LiveFileMetaData& file) {
  const std::shared_ptr<rocksdb::FileChecksumGenFactory> factory =
      rocksdb::GetFileChecksumGenCrc32cFactory();
  rocksdb::FileChecksumGenContext context;
  context.file_name = path;
  const std::unique_ptr<rocksdb::FileChecksumGenerator> checksum =
      factory->CreateFileChecksumGenerator(context);
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return absl::NotFoundError(path);
    return absl::StrCat("cannot be opened");
  }
  std::vector<char> block(kFileBlock);
  uint64_t size = 0;
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    checksum->Update(block.data(), static_cast<size_t>(in.gcount()));
    size += static_cast<uint64_t>(in.gcount());
  }
  if (in.bad()) return absl::StrCat("cannot be read beyond byte ", size);
  if (size != file.size) return absl::StrCat("has ", size, " bytes, ", file.size, " were written");
  checksum->Finalize();
  if (file.file_checksum_func_name == checksum->Name()) {
    return checksum->GetChecksum() == file.file_checksum
               ? ""
               : "its bytes are not those that were written";
  }
  // A file without a checksum of its own: check its blocks.
  rocksdb::SstFileReader reader{rocksdb::Options()};
  rocksdb::Status status = reader.Open(path);
  if (status.ok()) status = reader.VerifyChecksum();
  return status.ok() ? "" : status.ToString();
}

absl::Status Verifier::CheckFile(const rocksdb::LiveFileMetaData& file) {
  const std::string path = absl::StrCat(file.db_path, file.name);
  const absl::StatusOr<std::string> fault = FaultOfFile(path, file);
  // A daemon that has the store open has compacted the file away since it was listed.
  if (absl::IsNotFound(fault.status())) return absl::OkStatus();
  ++result_.files;
  result_.file_bytes += file.size;
  if (fault->empty()) return absl::OkStatus();
  Complain({file.column_family_name, file.relative_filename,
            absl::StrCat("keys ", absl::BytesToHexString(file.smallestkey), " to ",
                         absl::BytesToHexString(file.largestkey)),
            *fault});
  return absl::OkStatus();
}

// ---- rows

absl::Status Verifier::CheckRows(Family family) {
  const std::string stage(FamilyName(family));
  uint64_t total = 0;
  database_.db()->GetIntProperty(database_.family(family),
                                 rocksdb::DB::Properties::kEstimateNumKeys, &total);
  // Behind a block that cannot be read the scan goes on at the next file.
  std::set<std::string> starts;
  std::vector<rocksdb::LiveFileMetaData> files;
  database_.db()->GetLiveFilesMetaData(&files);
  for (const rocksdb::LiveFileMetaData& file : files) {
    if (file.column_family_name != FamilyName(family)) continue;
    starts.insert(file.smallestkey);
    starts.insert(file.largestkey);
  }
  RowIterator rows(view_, family, "");
  std::string at;  // the last key read, or looked for
  uint64_t done = 0;
  rows.Seek(at);
  for (;;) {
    for (; rows.Valid(); rows.Next()) {
      at = std::string(rows.key());
      ++result_.rows;
      if (++done % kRowsPerTell == 0) FORESHOCK_RETURN_IF_ERROR(Tell(stage, done, total));
      if (family == Family::kRows && at == FormatKey()) continue;  // was checked by opening
      const absl::StatusOr<absl::string_view> value = rows.Value();
      const Row row{family, at, value.value_or("")};
      if (value.ok()) {
        CheckRow(row);
      } else {
        Complain(row, "its checksum is wrong: the key or the value is not what was written");
      }
    }
    const absl::Status status = rows.status();
    if (status.ok()) return absl::OkStatus();
    const auto next = starts.upper_bound(at);
    Complain({stage, "",
              absl::StrCat("rows behind ", at.empty() ? "the start" : InWords(family, at)),
              absl::StrCat("cannot be read", next == starts.end() ? " to the end" : "", ": ",
                           status.message())});
    if (next == starts.end()) return absl::OkStatus();
    at = *next;
    rows.Seek(at);
  }
}

void Verifier::CheckRow(const Row& row) {
  switch (row.family) {
    case Family::kRows:
      return CheckFact(row);
    case Family::kOpen:
      return CheckReport(row);
    case Family::kHeads:
      return CheckHead(row);
    case Family::kChunks:
      return CheckChunk(row);
  }
}

const Verifier::RunRows* Verifier::RunOf(const Row& row) {
  uint32_t id = 0;
  const bool whole = DecodeRunOfKey(row.key, &id);
  const auto run = runs_.find(id);
  if (whole && run != runs_.end()) return &run->second;
  Complain(row, "no run row has this number");
  return nullptr;
}

bool Verifier::KnowsAttempt(const Row& row, const RunRows& run, uint32_t attempt) {
  if (run.attempts.contains(attempt)) return true;
  Complain(row, absl::StrCat("the run has no attempt ", attempt));
  return false;
}

bool Verifier::Parse(const Row& row, google::protobuf::MessageLite* message) {
  if (ParseRow(row.family, row.key, row.value, message).ok()) return true;
  Complain(row, absl::StrCat("is no ", message->GetTypeName()));
  return false;
}

void Verifier::CheckRunRow(const Row& row) {
  uint32_t id = 0;
  model::RunRow run;
  std::string name;
  if (!DecodeRunKey(row.key, &name)) return Complain(row, "its key is none of the store's");
  if (!DecodeRun(row.value, &id, &run)) return Complain(row, "cannot be decoded");
  Expect(run.name() == name, row, absl::StrCat("names the run ", run.name()));
  if (!runs_.try_emplace(id, RunRows{.name = name}).second) {
    Complain(row, absl::StrCat("its number ", id, " is that of run ", runs_[id].name, " too"));
  }
}

void Verifier::CheckFact(const Row& row) {
  uint32_t id = 0;
  if (!DecodeRunOfKey(row.key, &id)) return Complain(row, "its key is none of the store's");
  if (row.key == SilencesKey()) {
    model::SilencesRow silences;
    Parse(row, &silences);
    return;
  }
  if (id == kStoreRun) return CheckRunRow(row);
  if (RunOf(row) == nullptr) return;
  RunRows& run = runs_[id];
  uint32_t attempt = 0;
  const bool has_attempt = DecodeAttemptOfKey(row.key, &attempt);
  const auto kind = static_cast<RowKind>(row.key[4]);
  std::string key;  // that the row must lie under
  if (kind == RowKind::kAttempt) {
    model::AttemptRow message;
    if (!Parse(row, &message)) return;
    run.attempts.insert(message.number());
    Expect(message.has_first_step() == message.has_last_step() &&
               message.first_step() <= message.last_step(),
           row, "its first step lies behind its last");
    key = AttemptKey(id, message.number());
  } else if (kind == RowKind::kRank && has_attempt) {
    model::RankRow message;
    if (!Parse(row, &message) || !KnowsAttempt(row, run, attempt)) return;
    key = RankKey(id, attempt, message.rank(), message.client_instance());
  } else if (kind == RowKind::kCoactivation && has_attempt) {
    model::CoactivationRow message;
    if (!Parse(row, &message) || !KnowsAttempt(row, run, attempt)) return;
    key = CoactivationKey(id, attempt, message.layer());
  } else if (kind == RowKind::kJudging) {
    model::JudgingRow message;
    if (!Parse(row, &message) || !KnowsAttempt(row, run, message.attempt())) return;
    key = JudgingKey(id);
  } else if (kind == RowKind::kRetention && has_attempt) {
    RetentionRow message;
    if (!DecodeRetention(row.value, &message)) return Complain(row, "cannot be decoded");
    if (!KnowsAttempt(row, run, attempt)) return;
    run.raw_from[attempt] = message.raw_from;
    Expect(message.downsampled_before <= message.raw_from, row,
           "claims to have downsampled what is raw");
    key = RetentionKey(id, attempt);
  } else if (kind == RowKind::kAlert) {
    model::AlertRow message;
    if (!Parse(row, &message)) return;
    Expect(message.alert().run() == run.name, row,
           absl::StrCat("is about the run '", message.alert().run(), "'"));
    if (message.alert().attempt() != 0) KnowsAttempt(row, run, message.alert().attempt());
    key = AlertKey(id, message.alert().id());
  } else if (kind == RowKind::kEvent) {
    model::EventRow message;
    if (!Parse(row, &message) || !KnowsAttempt(row, run, message.attempt())) return;
    const v1::Event& event = message.event();
    key = EventKey(id, event.step(), message.attempt(), static_cast<uint32_t>(event.kind()),
                   event.name(), event.detail());
  } else if (kind == RowKind::kSeries) {
    model::SeriesKey series;
    uint32_t number = 0;
    if (!DecodeSeriesRowKey(row.key, &id, &series)) {
      return Complain(row, "its key is none of the store's");
    }
    if (!DecodeSeriesId(row.value, &number)) return Complain(row, "cannot be decoded");
    Expect(number != kStepTable && run.series.try_emplace(number, series).second, row,
           absl::StrCat("its number ", number, " is taken"));
    return;
  } else {
    return Complain(row, "its key is none of the store's");
  }
  Expect(key == row.key, row, "its value belongs under another key");
}

void Verifier::CheckReport(const Row& row) {
  ReportId id;
  model::ShardReport report;
  if (!DecodeReportKey(row.key, &id)) return Complain(row, "its key is none of the store's");
  const RunRows* run = RunOf(row);
  if (run == nullptr || !KnowsAttempt(row, *run, id.attempt) || !Parse(row, &report)) return;
  Expect(report.step() == id.step && report.rank() == id.rank && report.seq() == id.seq &&
             report.client_instance() == id.client_instance,
         row, "its value belongs under another key");
}

void Verifier::CheckHead(const Row& row) {
  HeadId id;
  if (!DecodeHeadKey(row.key, &id)) return Complain(row, "its key is none of the store's");
  const RunRows* run = RunOf(row);
  if (run == nullptr || !KnowsAttempt(row, *run, id.attempt)) return;
  HeadReader head;
  HeadPoint point;
  if (!head.Open(row.value)) return Complain(row, "cannot be decoded");
  while (head.Next(&point)) {
    ++result_.points;
    if (!run->series.contains(point.series)) {
      Complain(row, absl::StrCat("step ", head.row().step, " has a point of series number ",
                                 point.series, ", which has no row"));
    }
  }
  Expect(head.whole(), row, absl::StrCat("step ", head.row().step, " cannot be decoded"));
}

void Verifier::CheckChunk(const Row& row) {
  ChunkId id;
  ++result_.chunks;
  if (!DecodeChunkKey(row.key, &id)) return Complain(row, "its key is none of the store's");
  const RunRows* run = RunOf(row);
  if (run == nullptr || !KnowsAttempt(row, *run, id.attempt)) return;
  Expect(id.series == kStepTable || run->series.contains(id.series), row,
         "the run has no series of this number");
  if (chunk_before_.has_value() && chunk_before_->run == id.run &&
      chunk_before_->series == id.series && chunk_before_->attempt == id.attempt) {
    Expect(chunk_before_->window.last() < id.window.first, row,
           absl::StrCat("overlaps the chunk of ", StepsInWords(chunk_before_->window)));
  }
  chunk_before_ = id;
  const ChunkKind kind = KindOf(row.value);
  if (id.series == kStepTable) return CheckSteps(row, id);
  if (kind == ChunkKind::kDownsampled) return CheckParts(row, id);
  return CheckPoints(row, id);
}

void Verifier::CheckSteps(const Row& row, const ChunkId& id) {
  std::vector<model::StepRow> steps;
  if (!DecodeStepChunk(row.value, id.window.first, &steps)) {
    return Complain(row, "cannot be decoded");
  }
  Expect(id.window.Holds(steps.front().step) && id.window.Holds(steps.back().step), row,
         "has steps outside its window");
}

void Verifier::CheckPoints(const Row& row, const ChunkId& id) {
  std::vector<ChunkPoint> points;
  ChunkSummary summary;
  if (!DecodeChunk(row.value, id.window.first, &points) ||
      !DecodeChunkSummary(row.value, id.window.first, &summary)) {
    return Complain(row, "cannot be decoded");
  }
  result_.points += points.size();
  Expect(id.window.Holds(points.front().step) && id.window.Holds(points.back().step), row,
         "has points outside its window");
  Expect(summary == Summarise(points), row, "its summary is not that of its points");
}

void Verifier::CheckParts(const Row& row, const ChunkId& id) {
  std::vector<ChunkSummary> parts;
  if (!DecodeDownsampled(row.value, id.window.first, &parts)) {
    return Complain(row, "cannot be decoded");
  }
  result_.points += parts.size();
  int64_t before = id.window.first - 1;
  for (const ChunkSummary& part : parts) {
    Expect(before < part.first_step && id.window.Holds(part.last_step), row,
           "has parts outside its window or one another");
    Expect(part.min <= part.last && part.last <= part.max, row,
           absl::StrCat("the part of step ", part.first_step,
                        " has its last value outside its least and greatest"));
    before = part.last_step;
  }
  const auto raw_from = runs_[id.run].raw_from.find(id.attempt);
  Expect(raw_from != runs_[id.run].raw_from.end() && id.window.last() < raw_from->second, row,
         "is downsampled, and the attempt's retention row knows nothing of it");
}

// Checks the table files of a store that cannot be opened.
void CheckLooseFiles(const std::string& directory, const VerifyCallbacks& callbacks,
                     VerifyResult* result) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    if (!absl::EndsWith(path, ".sst")) continue;
    rocksdb::SstFileReader reader{rocksdb::Options()};
    rocksdb::Status status = reader.Open(path);
    if (status.ok()) status = reader.VerifyChecksum();
    ++result->files;
    if (status.ok()) continue;
    ++result->findings;
    if (callbacks.finding != nullptr) {
      callbacks.finding({"", it->path().filename().string(), "", status.ToString()});
    }
  }
}

}  // namespace

absl::StatusOr<VerifyResult> VerifyDatabase(const Database& database,
                                            const VerifyCallbacks& callbacks) {
  return Verifier(database, callbacks).Run();
}

absl::StatusOr<VerifyResult> VerifyDirectory(const std::string& directory,
                                             const VerifyCallbacks& callbacks) {
  absl::StatusOr<std::unique_ptr<Database>> database = Database::Open(
      {.directory = directory, .read_only = true}, nullptr, std::make_shared<DamageWatch>());
  if (database.ok()) return store::VerifyDatabase(**database, callbacks);
  if (!absl::IsDataLoss(database.status()) && !absl::IsInternal(database.status())) {
    return database.status();
  }
  VerifyResult result{.findings = 1};
  if (callbacks.finding != nullptr) {
    callbacks.finding({"", "", "the store", std::string(database.status().message())});
  }
  store::CheckLooseFiles(directory, callbacks, &result);
  return result;
}

}  // namespace foreshock::store
