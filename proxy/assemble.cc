#include "proxy/assemble.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::proxy {
namespace {

namespace fs = std::filesystem;

constexpr char kPlanName[] = "plan.json";
constexpr char kIdentityName[] = "slice.identity";  // only in OUT.partial, and until OUT is done
constexpr uint64_t kStepBytes = 64u << 20;          // between two reports of progress

absl::Status PathError(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// A directory that no other process may write while this lives.
class DirectoryLock {
 public:
  static absl::StatusOr<DirectoryLock> Take(const std::string& directory) {
    DirectoryLock lock(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.fd_ < 0) return PathError("cannot open", directory);
    if (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
      return PathError("another process writes", directory);
    }
    return lock;
  }
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock() {
    if (fd_ >= 0) close(fd_);
  }

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

// Whether `partial` is new or of the same cut; else an error.
absl::Status CheckPartial(const std::string& partial, const Cut& cut) {
  const std::string path = absl::StrCat(partial, "/", kIdentityName);
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadWhole(path));
    if (text == cut.identity) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(partial, " is of another plan, source or option; remove it to start anew"));
  }
  std::error_code error;
  for (fs::directory_iterator at(partial, error), end; at != end; at.increment(error)) {
    if (at->path().filename() == absl::StrCat(kIdentityName, ".tmp")) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(partial, " is in the way: it has files and no ", kIdentityName));
  }
  return WriteWhole(path, cut.identity);
}

// Whether the file is there as an earlier attempt finished it.
bool IsWhole(const std::string& path, const CutShard& part) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok() || file->bytes() != part.bytes) return false;
  const absl::StatusOr<std::string> header = file->Read(0, part.header.size());
  return header.ok() && *header == part.header;
}

absl::Status WriteShard(const std::string& path, const Shard& shard, const CutShard& part,
                        uint64_t done, const OnBytes& on_bytes) {
  FORESHOCK_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(path));
  FORESHOCK_RETURN_IF_ERROR(out.Append(part.header));
  for (const Range& range : part.ranges) {
    for (uint64_t at = 0; at < range.bytes; at += kStepBytes) {
      const uint64_t step = std::min(kStepBytes, range.bytes - at);
      FORESHOCK_RETURN_IF_ERROR(out.AppendRange(shard.file, range.begin + at, step));
      done += step;
      on_bytes(done, shard.name);
    }
  }
  return out.Commit();
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  FORESHOCK_ASSIGN_OR_RETURN(const InputFile in, InputFile::Open(from));
  FORESHOCK_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(to));
  FORESHOCK_RETURN_IF_ERROR(out.AppendRange(in, 0, in.bytes()));
  return out.Commit();
}

absl::StatusOr<Assembled> Fill(const Checkpoint& checkpoint, const Plan& plan, const Cut& cut,
                               const std::string& partial, const OnBytes& on_bytes) {
  const auto file = [&](const std::string& name) { return absl::StrCat(partial, "/", name); };
  FORESHOCK_RETURN_IF_ERROR(WriteWhole(file(kPlanName), FormatPlan(plan)));
  for (const auto& [name, text] : cut.texts) {
    FORESHOCK_RETURN_IF_ERROR(WriteWhole(file(name), text));
  }
  for (const std::string& name : cut.side_files) {
    FORESHOCK_RETURN_IF_ERROR(CopyFile(absl::StrCat(checkpoint.directory, "/", name), file(name)));
  }
  Assembled assembled;
  uint64_t done = 0;
  for (const CutShard& part : cut.shards) {
    const Shard& shard = checkpoint.shards[part.shard];
    if (IsWhole(file(shard.name), part)) {
      ++assembled.shards_kept;
    } else {
      FORESHOCK_RETURN_IF_ERROR(WriteShard(file(shard.name), shard, part, done, on_bytes));
      ++assembled.shards_written;
    }
    done += part.bytes;
    on_bytes(done, shard.name);
  }
  return assembled;
}

// Whether `path` is a proxy whose last attempt ended between the renaming and the last removal.
bool IsUnfinished(const std::string& path) {
  std::error_code ignored;
  return fs::exists(absl::StrCat(path, "/", kIdentityName), ignored);
}

absl::Status ExistsError(const std::string& path) {
  return absl::AlreadyExistsError(
      absl::StrCat(path, " exists; a proxy is written into a new directory"));
}

absl::Status FinishOutput(const std::string& path) {
  const std::string identity = absl::StrCat(path, "/", kIdentityName);
  if (unlink(identity.c_str()) != 0) return PathError("cannot remove", identity);
  FORESHOCK_RETURN_IF_ERROR(SyncDirectory(path));
  return SyncDirectory(ParentOf(path));
}

// All of it but the last removal was done by an attempt before.
absl::StatusOr<Assembled> FinishEarlier(const std::string& path, const Cut& cut) {
  FORESHOCK_ASSIGN_OR_RETURN(const DirectoryLock lock, DirectoryLock::Take(path));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string text,
                             ReadWhole(absl::StrCat(path, "/", kIdentityName)));
  if (text != cut.identity) return ExistsError(path);
  FORESHOCK_RETURN_IF_ERROR(FinishOutput(path));
  return Assembled{.shards_written = 0, .shards_kept = cut.shards.size()};
}

}  // namespace

absl::Status CheckOutput(const Checkpoint& checkpoint, const std::string& out) {
  const std::string path = WithoutSlash(out);
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error)) && !IsUnfinished(path)) {
    return ExistsError(path);
  }
  const fs::path parent = fs::canonical(ParentOf(path), error);
  if (error || !fs::is_directory(parent)) {
    return absl::NotFoundError(
        absl::StrCat(ParentOf(path), " is no directory, so ", path, " cannot be made in it"));
  }
  const fs::path source = fs::canonical(checkpoint.directory, error);
  if (std::mismatch(source.begin(), source.end(), parent.begin(), parent.end()).first ==
      source.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " lies inside the source ", checkpoint.directory,
                     ", to which nothing is written; choose another place"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Assembled> Assemble(const Checkpoint& checkpoint, const Plan& plan, const Cut& cut,
                                   const std::string& out, const OnBytes& on_bytes) {
  FORESHOCK_RETURN_IF_ERROR(CheckOutput(checkpoint, out));
  const std::string path = WithoutSlash(out);
  if (IsUnfinished(path)) return FinishEarlier(path, cut);
  const std::string partial = path + ".partial";
  if (mkdir(partial.c_str(), 0755) != 0 && errno != EEXIST) {
    return PathError("cannot create", partial);
  }
  FORESHOCK_ASSIGN_OR_RETURN(const DirectoryLock lock, DirectoryLock::Take(partial));
  FORESHOCK_RETURN_IF_ERROR(CheckPartial(partial, cut));
  absl::StatusOr<Assembled> assembled = Fill(checkpoint, plan, cut, partial, on_bytes);
  if (!assembled.ok()) {
    return absl::Status(assembled.status().code(),
                        absl::StrCat(assembled.status().message(), "; ", path,
                                     " was not made, what is whole is in ", partial,
                                     ": the same command goes on from there"));
  }
  if (rename(partial.c_str(), path.c_str()) != 0) return PathError("cannot rename", partial);
  FORESHOCK_RETURN_IF_ERROR(FinishOutput(path));
  return assembled;
}

}  // namespace foreshock::proxy
