// Writes a capture; the name's ending picks the form: .fscap or .jsonl.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CaptureWriter> writer, CaptureWriter::Create("run.fscap"));
//   RETURN_IF_ERROR(writer->Write(record));
//   RETURN_IF_ERROR(writer->Commit());
//
// The file appears under its name only at Commit, complete and synced; without it (or after an
// error) what was written is removed, and a file that had the name before is as it was.
// Thread-compatible. Memory: one frame (about 4 MiB) and one record.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/format.h"
#include "daemon/capture/stream_order.h"
#include "foreshock/v1/capture.pb.h"

struct ZSTD_CCtx_s;

namespace foreshock::capture {

struct CaptureWriterOptions {
  size_t record_bytes_max = kCaptureRecordBytesMax;
  int compression_level = 3;  // zstd's, 1..19; .fscap only
};

class CaptureWriter {
 public:
  // Errors: InvalidArgument for another ending or level; what the file system says.
  static absl::StatusOr<std::unique_ptr<CaptureWriter>> Create(const std::string& path,
                                                               CaptureWriterOptions options = {});
  ~CaptureWriter();
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // Errors: InvalidArgument if the record breaks the order of its stream or the size limit (the
  // capture is unharmed and goes on); what the file system says (the capture is lost).
  absl::Status Write(const v1::CaptureRecord& record);

  // Ends, syncs and names the file. Nothing may be written after it.
  absl::Status Commit();

  uint64_t records() const { return records_; }

 private:
  enum class Form { kFscap, kJsonl };
  CaptureWriter(std::string path, Form form, CaptureWriterOptions options);

  absl::Status Flush();  // pending_ as one frame, or as it is
  absl::Status WriteToFile(absl::string_view bytes);
  absl::Status SyncAndRename();
  absl::Status Fail(int error, absl::string_view doing) const;

  const std::string path_;
  const std::string temporary_path_;
  const Form form_;
  const CaptureWriterOptions options_;
  std::FILE* file_ = nullptr;  // null: not open, committed or failed
  std::unique_ptr<ZSTD_CCtx_s, size_t (*)(ZSTD_CCtx_s*)> context_;
  std::string pending_;     // content of the frame being filled
  std::string compressed_;  // scratch
  uint64_t records_ = 0;
  absl::Status failed_;
  StreamOrder order_;
};

}  // namespace foreshock::capture
