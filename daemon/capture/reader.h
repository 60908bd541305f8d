// Reads a capture: the messages ranks sent, in the order in which they were sent. The format
// (.fscap or .jsonl) is told by the content, not by the name.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CaptureReader> reader, CaptureReader::Open("run.fscap"));
//   v1::CaptureRecord record;
//   while (true) {
//     ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
//     if (!more) break;
//     Use(record);
//   }
//
// Thread-compatible. Memory: one record of a .jsonl, one frame (about 4 MiB) and one record of a
// .fscap, whatever the file claims about itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/format.h"
#include "foreshock/v1/capture.pb.h"

namespace foreshock::capture {

struct CaptureReaderOptions {
  size_t record_bytes_max = kCaptureRecordBytesMax;  // of one CaptureRecord, serialised
};

struct CaptureProgress {
  uint64_t records = 0;      // delivered by Next
  uint64_t bytes_read = 0;   // of the file
  uint64_t bytes_total = 0;  // of the file; 0: not known (a pipe)
};

class CaptureReader {
 public:
  // Errors: NotFound, PermissionDenied or Unavailable as the file system says; InvalidArgument if
  // the file is no capture or of a version this build cannot read.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(const std::string& path,
                                                             CaptureReaderOptions options = {});
  virtual ~CaptureReader() = default;

  // The next record; false at the end of a complete capture. Each record handed out is checked: it
  // has a message, its stream began with a Hello and no Goodbye came before; in a .fscap also by
  // the frame's checksum. After an error the reader stays at it: the records before are good, and
  // the message says how many there were.
  // Errors: DataLoss (truncated or corrupt), InvalidArgument (well-formed, but not allowed).
  virtual absl::StatusOr<bool> Next(v1::CaptureRecord* record) = 0;

  virtual CaptureProgress progress() const = 0;
};

}  // namespace foreshock::capture
