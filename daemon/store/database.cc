#include "daemon/store/database.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/directory.h"
#include "daemon/store/format.h"
#include "daemon/store/rocks_status.h"
#include "rocksdb/cache.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "rocksdb/write_buffer_manager.h"

namespace foreshock::store {
namespace {

constexpr absl::string_view kFamilyNames[kFamilies] = {"default", "open", "heads", "chunks"};

constexpr int kReadOnlyAttempts = 10;

// Sends RocksDB's warnings to our log, a few at most. RocksDB then writes no LOG files.
class WarningLogger final : public rocksdb::Logger {
 public:
  WarningLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}

  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    Logv(rocksdb::InfoLogLevel::INFO_LEVEL, format, arguments);
  }
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL) return;
    if (level == rocksdb::InfoLogLevel::HEADER_LEVEL) return;
    // Every backup causes this message.
    if (absl::StrContains(format, "File Deletions")) return;
    char line[512];
    std::vsnprintf(line, sizeof(line), format, arguments);
    const absl::string_view text = absl::StripTrailingAsciiWhitespace(line);
    base::LogEvery(format,
                   level == rocksdb::InfoLogLevel::WARN_LEVEL ? base::LogLevel::kWarning
                                                              : base::LogLevel::kError,
                   "rocksdb", text);
  }
};

rocksdb::DBOptions DatabaseOptions(const StoreOptions& options, rocksdb::Env* env) {
  rocksdb::DBOptions db;
  if (env != nullptr) db.env = env;
  db.create_if_missing = !options.read_only;
  db.create_missing_column_families = !options.read_only;
  db.info_log = std::make_shared<WarningLogger>();
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  // Gives every table file a checksum in the manifest: verify finds each changed byte.
  db.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  db.max_open_files = options.open_files_max;
  db.max_background_jobs = 2;
  db.max_total_wal_size = options.log_bytes_max;
  db.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(options.write_buffer_bytes);
  // Flushes all families together, so the log holds no more than the memtables: a reopen replays
  // one memtable's worth of keys at most.
  db.atomic_flush = true;
  // Rows in memory are also in the log. So closing and opening need no room, even on a full disk.
  db.avoid_flush_during_shutdown = true;
  db.avoid_flush_during_recovery = true;
  // After a failed write the store reopens. RocksDB's own recovery may report success too early.
  db.max_bgerror_resume_count = 0;
  return db;
}

std::vector<rocksdb::ColumnFamilyDescriptor> FamilyDescriptors(const StoreOptions& options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  table.cache_index_and_filter_blocks = true;  // so that the cache bounds them too
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.block_size = 16 << 10;
  table.format_version = 5;

  rocksdb::ColumnFamilyOptions family;
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  family.write_buffer_size = options.write_buffer_bytes;  // the manager bounds all of them
  family.max_write_buffer_number = 4;  // writes go on while older buffers are flushed
  family.target_file_size_base = 32 << 20;
  family.level_compaction_dynamic_level_bytes = true;
  family.compression = rocksdb::kLZ4Compression;
  family.bottommost_compression = rocksdb::kZSTD;

  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const absl::string_view name : kFamilyNames) {
    families.emplace_back(std::string(name), family);
  }
  // Chunks are packed already. At the last level compression still helps for keys, summaries and
  // the many chunks that are alike.
  rocksdb::ColumnFamilyOptions& chunks = families[static_cast<int>(Family::kChunks)].options;
  chunks.compression = rocksdb::kNoCompression;
  return families;
}

absl::Status OpenFailed(const std::string& directory, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  const std::string what = absl::StrCat("store: cannot open ", directory);
  if (absl::StrContains(text, "lock hold by current process")) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", directory, " is already open in this process (", getpid(), ")"));
  }
  if (status.IsIOError() && absl::StrContains(text, "While lock file")) {
    const pid_t holder = LockHolder(directory);
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", directory, " is in use by ",
                     holder > 0 ? absl::StrCat("process ", holder) : "another process",
                     "; only one daemon may have it open"));
  }
  if (status.IsIOError() && (absl::StrContains(text, "Permission denied") ||
                             absl::StrContains(text, "Operation not permitted") ||
                             absl::StrContains(text, "Read-only file system"))) {
    return absl::PermissionDeniedError(absl::StrCat(what, ": ", text));
  }
  return FromRocks(status, what);
}

// Opens the database even if its logs are damaged. RocksDB replays them up to the first record that
// is incomplete or wrong. Half a batch at the end is what a killed process leaves; it was never
// acknowledged. Anything else is damage: acknowledged batches from there on are lost, because a
// later batch means nothing without those before it. The damaged logs are kept aside then.
rocksdb::Status OpenForWriting(rocksdb::DBOptions options, const std::string& directory,
                               const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                               DamageWatch* damage,
                               std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                               rocksdb::DB** db) {
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  const rocksdb::Status whole = rocksdb::DB::Open(options, directory, families, handles, db);
  if (!whole.IsCorruption()) return whole;

  // Reads once more and leaves out nothing but incomplete ends of logs.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocksdb::SequenceNumber readable = 0;
  const rocksdb::Status tolerant = [&] {
    rocksdb::DB* raw = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> looked_at;
    rocksdb::Status opened =
        rocksdb::DB::OpenForReadOnly(options, directory, families, &looked_at, &raw);
    if (!opened.ok()) return opened;
    const std::unique_ptr<rocksdb::DB> reader(raw);
    readable = reader->GetLatestSequenceNumber();
    for (rocksdb::ColumnFamilyHandle* handle : looked_at) {
      reader->DestroyColumnFamilyHandle(handle);
    }
    return opened;
  }();

  const absl::Status kept = KeepLogs(directory);
  handles->clear();
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  const rocksdb::Status opened = rocksdb::DB::Open(options, directory, families, handles, db);
  if (!opened.ok()) return opened;
  if (tolerant.ok() && readable <= (*db)->GetLatestSequenceNumber()) {
    base::LogInfo("store", "the log ended within a batch that had not been acknowledged",
                  {{"directory", directory}});
    DropKeptLogs(directory);
    return opened;
  }
  damage->Note(absl::DataLossError(absl::StrCat(
      "store: the write-ahead log in ", directory, " is damaged (", whole.ToString(),
      "): batches that were acknowledged are lost from there on; the logs as they were ",
      kept.ok() ? absl::StrCat("are in ", KeptLogs(directory))
                : absl::StrCat("could not be kept: ", kept.message()))));
  // Makes RocksDB delete the damaged logs, so that the next opening does not find them again.
  if (const rocksdb::Status flushed = (*db)->Flush({}, *handles); !flushed.ok()) {
    base::LogWarning("store", "damaged logs stay in use", {{"error", flushed.ToString()}});
  }
  return opened;
}

}  // namespace

absl::string_view FamilyName(Family family) { return kFamilyNames[static_cast<int>(family)]; }

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const StoreOptions& options,
                                                         rocksdb::Env* env,
                                                         std::shared_ptr<DamageWatch> damage) {
  rocksdb::DBOptions db_options = DatabaseOptions(options, env);
  db_options.listeners.push_back(damage);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = FamilyDescriptors(options);
  if (HasDatabase(options.directory)) {
    std::vector<std::string> names;
    const rocksdb::Status listed =
        rocksdb::DB::ListColumnFamilies(db_options, options.directory, &names);
    if (!listed.ok()) return OpenFailed(options.directory, listed);
    FORESHOCK_RETURN_IF_ERROR(CheckFamilies(db_options, options.directory, names));
  } else if (options.read_only) {
    return absl::NotFoundError(absl::StrCat("store: there is no store in ", options.directory));
  }

  std::unique_ptr<Database> database(new Database(damage));
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  rocksdb::Status opened;
  if (options.read_only) {
    for (int attempt = 1; attempt <= kReadOnlyAttempts; ++attempt) {
      opened =
          rocksdb::DB::OpenForReadOnly(db_options, options.directory, families, &handles, &raw);
      // A daemon that has it open may remove a log or table after RocksDB has listed it.
      if (!absl::StrContains(opened.ToString(), "No such file")) break;
      absl::SleepFor(absl::Milliseconds(20 * attempt));
    }
  } else {
    opened = OpenForWriting(db_options, options.directory, families, damage.get(), &handles, &raw);
  }
  if (!opened.ok()) return OpenFailed(options.directory, opened);
  database->db_.reset(raw);
  std::copy_n(handles.begin(), kFamilies, database->handles_);
  FORESHOCK_RETURN_IF_ERROR(CheckFormat(options, *database));
  return database;
}

Database::~Database() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
  // The log holds all rows that are not in a table yet, so a failing close loses nothing. After a
  // failed write it is expected.
  if (const rocksdb::Status closed = db_->Close(); !closed.ok()) {
    base::LogDebug("store", "closing RocksDB failed", {{"error", closed.ToString()}});
  }
}

absl::Status Database::SuspendCompactions() const {
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    const rocksdb::Status set = db_->SetOptions(handle, {{"disable_auto_compactions", "true"}});
    FORESHOCK_RETURN_IF_ERROR(FromRocks(set, "store: cannot suspend compactions"));
  }
  base::LogError("store",
                 "compactions are suspended until the store is opened again, because one met "
                 "damage; new data is stored as before");
  return absl::OkStatus();
}

absl::Status SyncLogs(const std::string& directory, rocksdb::Env* env) {
  if (env == nullptr) env = rocksdb::Env::Default();
  const std::string what = absl::StrCat("store: cannot sync ", directory);
  std::vector<std::string> names;
  FORESHOCK_RETURN_IF_ERROR(FromRocks(env->GetChildren(directory, &names), what));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".log")) continue;
    std::unique_ptr<rocksdb::RandomRWFile> log;
    const std::string path = absl::StrCat(directory, "/", name);
    rocksdb::Status status = env->NewRandomRWFile(path, &log, rocksdb::EnvOptions());
    if (status.ok()) status = log->Sync();
    // RocksDB removes a log when it has synced all its rows in tables.
    if (!status.ok() && !env->FileExists(path).IsNotFound()) return FromRocks(status, what);
  }
  std::unique_ptr<rocksdb::Directory> listing;
  rocksdb::Status status = env->NewDirectory(directory, &listing);
  if (status.ok()) status = listing->Fsync();
  return FromRocks(status, what);
}

}  // namespace foreshock::store
