#include "daemon/store/backup.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/database.h"
#include "daemon/store/rocks_status.h"
#include "rocksdb/utilities/backup_engine.h"

namespace foreshock::store {
namespace {

namespace fs = std::filesystem;

BackupInfo ToInfo(const rocksdb::BackupInfo& backup) {
  return {backup.backup_id, backup.timestamp, backup.size, backup.number_files};
}

// FailedPrecondition unless `directory` is missing or empty.
absl::Status CheckIsFree(const std::string& directory) {
  std::error_code error;
  const fs::file_status there = fs::status(directory, error);
  if (there.type() == fs::file_type::not_found) return absl::OkStatus();
  if (there.type() == fs::file_type::directory && fs::is_empty(directory, error) && !error) {
    return absl::OkStatus();
  }
  if (error) return FromErrno(error.value(), absl::StrCat("backup: cannot read ", directory));
  return absl::FailedPreconditionError(absl::StrCat(
      "backup: ", directory, " is not empty; give an empty or a new directory to restore to"));
}

}  // namespace

absl::StatusOr<BackupInfo> CreateBackup(const Database& database,
                                        const std::string& backup_directory) {
  const std::string what = absl::StrCat("backup: cannot write to ", backup_directory);
  const fs::path parent = fs::absolute(backup_directory).parent_path();
  std::error_code error;
  if (!fs::is_directory(parent, error)) {
    return absl::NotFoundError(absl::StrCat(what, ": there is no directory ", parent.string()));
  }
  rocksdb::BackupEngineOptions options(backup_directory);
  options.max_background_operations = 1;
  rocksdb::BackupEngine* raw = nullptr;
  FORESHOCK_RETURN_IF_ERROR(
      FromRocks(rocksdb::BackupEngine::Open(options, rocksdb::Env::Default(), &raw), what));
  const std::unique_ptr<rocksdb::BackupEngine> engine(raw);
  rocksdb::CreateBackupOptions create;
  create.flush_before_backup = true;
  rocksdb::BackupID id = 0;
  FORESHOCK_RETURN_IF_ERROR(FromRocks(engine->CreateNewBackup(create, database.db(), &id), what));
  FORESHOCK_RETURN_IF_ERROR(
      FromRocks(engine->VerifyBackup(id, /*verify_with_checksum=*/true),
                absl::StrCat("backup: ", backup_directory, " does not read back")));
  rocksdb::BackupInfo info;
  FORESHOCK_RETURN_IF_ERROR(FromRocks(engine->GetBackupInfo(id, &info), what));
  return ToInfo(info);
}

absl::StatusOr<BackupInfo> RestoreBackup(const std::string& backup_directory,
                                         const std::string& directory) {
  namespace fs = std::filesystem;
  FORESHOCK_RETURN_IF_ERROR(store::CheckIsFree(directory));
  std::error_code error;
  if (!fs::is_directory(backup_directory, error)) {
    return absl::NotFoundError(absl::StrCat("backup: there is no directory ", backup_directory));
  }
  const std::string what = absl::StrCat("backup: cannot read ", backup_directory);
  rocksdb::BackupEngineReadOnly* raw = nullptr;
  FORESHOCK_RETURN_IF_ERROR(
      FromRocks(rocksdb::BackupEngineReadOnly::Open(rocksdb::BackupEngineOptions(backup_directory),
                                                    rocksdb::Env::Default(), &raw),
                what));
  const std::unique_ptr<rocksdb::BackupEngineReadOnly> engine(raw);
  rocksdb::BackupInfo info;
  if (!engine->GetLatestBackupInfo(&info).ok()) {
    return absl::NotFoundError(
        absl::StrCat("backup: there is no whole backup in ", backup_directory));
  }
  FORESHOCK_RETURN_IF_ERROR(
      FromRocks(engine->VerifyBackup(info.backup_id, /*verify_with_checksum=*/true), what));
  // Restores beside the place first: an interrupted restore leaves nothing that looks like a store.
  const std::string partial = absl::StrCat(directory, ".partial");
  fs::remove_all(partial, error);
  FORESHOCK_RETURN_IF_ERROR(FromRocks(engine->RestoreDBFromBackup(info.backup_id, partial, partial),
                                      absl::StrCat("backup: cannot write to ", partial)));
  if (std::rename(partial.c_str(), directory.c_str()) != 0) {
    return FromErrno(errno, absl::StrCat("backup: cannot rename ", partial));
  }
  return store::ToInfo(info);
}

}  // namespace foreshock::store
