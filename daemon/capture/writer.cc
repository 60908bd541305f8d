#include "daemon/capture/writer.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::capture {
namespace {

void AppendLength(uint64_t length, std::string* out) {
  while (length >= 0x80) {
    out->push_back(static_cast<char>(length | 0x80));
    length >>= 7;
  }
  out->push_back(static_cast<char>(length));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureWriter>> CaptureWriter::Create(const std::string& path,
                                                                     CaptureWriterOptions options) {
  const bool fscap = absl::EndsWith(path, ".fscap");
  if (!fscap && !absl::EndsWith(path, ".jsonl")) {
    return absl::InvalidArgumentError(
        absl::StrCat("writing capture ", path, ": the name must end in .fscap or .jsonl"));
  }
  if (options.compression_level < 1 || options.compression_level > 19) {
    return absl::InvalidArgumentError(absl::StrCat("writing capture ", path, ": compression level ",
                                                   options.compression_level,
                                                   ", allowed are 1 to 19"));
  }
  std::unique_ptr<CaptureWriter> writer(
      new CaptureWriter(path, fscap ? Form::kFscap : Form::kJsonl, options));
  writer->file_ = std::fopen(writer->temporary_path_.c_str(), "wbxe");
  if (writer->file_ == nullptr) return writer->Fail(errno, "creating");
  if (fscap) {
    ZSTD_CCtx_setParameter(writer->context_.get(), ZSTD_c_compressionLevel,
                           options.compression_level);
    ZSTD_CCtx_setParameter(writer->context_.get(), ZSTD_c_checksumFlag, 1);
    std::string header(kFscapMagic);
    header.push_back(static_cast<char>(kFscapVersion));
    FORESHOCK_RETURN_IF_ERROR(writer->WriteToFile(header));
  }
  return writer;
}

// The process number keeps two writers of one name apart; the last Commit wins.
CaptureWriter::CaptureWriter(std::string path, Form form, CaptureWriterOptions options)
    : path_(std::move(path)),
      temporary_path_(absl::StrCat(path_, ".", getpid(), ".tmp")),
      form_(form),
      options_(options),
      context_(ZSTD_createCCtx(), &ZSTD_freeCCtx) {}

CaptureWriter::~CaptureWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(temporary_path_.c_str());
}

absl::Status CaptureWriter::Write(const v1::CaptureRecord& record) {
  FORESHOCK_RETURN_IF_ERROR(failed_);
  if (file_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("writing capture ", path_, ": it is committed"));
  }
  const size_t bytes = record.ByteSizeLong();
  if (bytes > options_.record_bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("writing capture ", path_, ": record ", records_ + 1, " has ", bytes,
                     " bytes, allowed are ", options_.record_bytes_max));
  }
  if (const absl::Status order = order_.Check(record); !order.ok()) {
    return base::Annotate(order,
                          absl::StrCat("writing capture ", path_, ": record ", records_ + 1));
  }
  if (form_ == Form::kFscap) {
    AppendLength(bytes, &pending_);
    record.AppendToString(&pending_);
  } else {
    std::string line;
    const auto printed = google::protobuf::util::MessageToJsonString(record, &line);
    if (!printed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("writing capture ", path_, ": record ",
                                                     records_ + 1, ": ", printed.ToString()));
    }
    absl::StrAppend(&pending_, line, "\n");
  }
  ++records_;
  return pending_.size() >= kFrameContentBytes ? Flush() : absl::OkStatus();
}

absl::Status CaptureWriter::Commit() {
  FORESHOCK_RETURN_IF_ERROR(failed_);
  if (file_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("writing capture ", path_, ": it is committed already"));
  }
  if (form_ == Form::kFscap) AppendLength(0, &pending_);  // the end mark
  FORESHOCK_RETURN_IF_ERROR(Flush());
  if (const absl::Status done = SyncAndRename(); !done.ok()) {
    failed_ = done;
    return done;
  }
  return absl::OkStatus();
}

absl::Status CaptureWriter::Flush() {
  absl::Status written;
  if (form_ == Form::kFscap) {
    compressed_.resize(ZSTD_compressBound(pending_.size()));
    const size_t size = ZSTD_compress2(context_.get(), compressed_.data(), compressed_.size(),
                                       pending_.data(), pending_.size());
    if (ZSTD_isError(size) != 0) {
      written = absl::InternalError(
          absl::StrCat("writing capture ", path_, ": zstd says: ", ZSTD_getErrorName(size)));
    } else {
      written = WriteToFile(absl::string_view(compressed_).substr(0, size));
    }
  } else {
    written = WriteToFile(pending_);
  }
  pending_.clear();
  if (!written.ok()) failed_ = written;
  return written;
}

absl::Status CaptureWriter::WriteToFile(absl::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    return Fail(errno, "writing");
  }
  return absl::OkStatus();
}

absl::Status CaptureWriter::SyncAndRename() {
  if (std::fflush(file_) != 0) return Fail(errno, "writing");
  if (fsync(fileno(file_)) != 0) return Fail(errno, "syncing");
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) return Fail(errno, "naming");
  std::fclose(file_);
  file_ = nullptr;
  // The name is durable only when its directory is.
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  const int directory =
      open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return Fail(errno, "opening the directory of");
  const int synced = fsync(directory);
  const int error = errno;
  close(directory);
  return synced == 0 ? absl::OkStatus() : Fail(error, "syncing the directory of");
}

absl::Status CaptureWriter::Fail(int error, absl::string_view doing) const {
  return absl::ErrnoToStatus(error, absl::StrCat(doing, " capture ", path_));
}

}  // namespace foreshock::capture
