#include "daemon/store/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/rocks_status.h"

namespace foreshock::store {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kDirectoryMode = 0750;

// Files that a file system puts there itself, or that a killed process left while it created a
// database.
bool MayLieInFreshDirectory(const std::string& name) {
  return name == "LOCK" || name == "IDENTITY" || name == "lost+found" ||
         absl::StartsWith(name, "MANIFEST-") || absl::StartsWith(name, "OPTIONS-") ||
         absl::EndsWith(name, ".dbtmp") || absl::EndsWith(name, ".log");
}

absl::Status CheckIsOurs(const std::string& directory) {
  if (HasDatabase(directory)) return absl::OkStatus();
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!MayLieInFreshDirectory(name)) {
      return absl::FailedPreconditionError(
          absl::StrCat("store: ", directory, " is no Foreshock store: it is not empty (there is ",
                       name, "); give an empty or a new directory"));
    }
  }
  return FromErrno(error.value(), absl::StrCat("store: cannot list ", directory));
}

}  // namespace

absl::Status PrepareDirectory(const std::string& directory) {
  struct stat info;
  if (stat(directory.c_str(), &info) != 0) {
    if (errno != ENOENT) return FromErrno(errno, absl::StrCat("store: cannot open ", directory));
    if (mkdir(directory.c_str(), kDirectoryMode) != 0) {
      return FromErrno(errno, absl::StrCat("store: cannot create ", directory));
    }
  } else if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("store: ", directory, " is not a directory"));
  }
  FORESHOCK_RETURN_IF_ERROR(CheckIsOurs(directory));
  return ProbeWrite(directory, 1);
}

bool HasDatabase(const std::string& directory) {
  std::error_code error;
  return fs::exists(directory + "/CURRENT", error);
}

absl::Status ProbeWrite(const std::string& directory, uint64_t bytes) {
  const std::string what = absl::StrCat("store: cannot write in ", directory);
  std::string path = directory + "/probe-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return FromErrno(errno, what);
  unlink(path.c_str());
  const std::vector<char> block(std::min<uint64_t>(bytes, 64 << 10), 'x');
  int error = 0;
  while (bytes > 0 && error == 0) {
    const ssize_t written = write(file, block.data(), std::min<uint64_t>(bytes, block.size()));
    if (written >= 0) {
      bytes -= static_cast<uint64_t>(written);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (close(file) != 0 && error == 0) error = errno;
  return FromErrno(error, what);
}

pid_t LockHolder(const std::string& directory) {
  const int file = open((directory + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool known = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(file);
  return known ? std::max<pid_t>(lock.l_pid, 0) : 0;
}

std::string KeptLogs(const std::string& directory) { return directory + "/damaged_logs"; }

absl::Status KeepLogs(const std::string& directory) {
  const std::string kept = KeptLogs(directory);
  std::error_code error;
  fs::create_directory(kept, error);
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".log") continue;
    const fs::path link = fs::path(kept) / it->path().filename();
    if (!fs::exists(link, error) && !error) fs::create_hard_link(it->path(), link, error);
    if (error) break;
  }
  return FromErrno(error.value(), absl::StrCat("store: cannot keep logs in ", kept));
}

void DropKeptLogs(const std::string& directory) {
  const std::string kept = KeptLogs(directory);
  std::vector<fs::path> dropped;
  std::error_code error;
  for (fs::directory_iterator it(kept, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (it->hard_link_count(gone) > 1) dropped.push_back(it->path());
  }
  for (const fs::path& path : dropped) fs::remove(path, error);
  fs::remove(kept, error);  // fails as it should if older logs are still there
}

uint64_t DirectoryBytes(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // a file may be deleted meanwhile
    const uint64_t size = it->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

}  // namespace foreshock::store
