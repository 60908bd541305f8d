// The text form: one proto3-JSON CaptureRecord per line; blank lines are skipped.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/capture/input_file.h"
#include "daemon/capture/reader.h"
#include "daemon/capture/stream_order.h"

namespace foreshock::capture {

class JsonlReader final : public CaptureReader {
 public:
  JsonlReader(InputFile file, CaptureReaderOptions options);

  absl::StatusOr<bool> Next(v1::CaptureRecord* record) override;
  CaptureProgress progress() const override;

 private:
  absl::StatusOr<bool> ReadRecord(v1::CaptureRecord* record);
  absl::StatusOr<bool> ReadLine();  // fills line_ without its end; false at the end of the file
  absl::Status Bad(absl::string_view what) const;

  const CaptureReaderOptions options_;
  InputFile file_;
  std::string input_;
  size_t input_used_ = 0;
  std::string line_;
  uint64_t line_number_ = 0;  // of line_, from 1
  uint64_t records_ = 0;
  absl::Status failed_;
  StreamOrder order_;
};

}  // namespace foreshock::capture
