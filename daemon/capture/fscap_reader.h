// The compressed form: header, then zstd frames of length-delimited records. A frame is inflated
// and its checksum verified before the first of its records is handed out. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/capture/input_file.h"
#include "daemon/capture/reader.h"
#include "daemon/capture/stream_order.h"

struct ZSTD_DCtx_s;

namespace foreshock::capture {

class FscapReader final : public CaptureReader {
 public:
  // `file` stands at its first byte, which begins the magic.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Create(InputFile file,
                                                               CaptureReaderOptions options);
  ~FscapReader() override;

  absl::StatusOr<bool> Next(v1::CaptureRecord* record) override;
  CaptureProgress progress() const override;

 private:
  FscapReader(InputFile file, CaptureReaderOptions options);

  absl::StatusOr<bool> ReadRecord(v1::CaptureRecord* record);
  absl::Status InflateFrame();  // fills content_
  absl::Status RefillInput();   // at least one byte, else DataLoss
  absl::Status ExpectEndOfFile();
  absl::Status Corrupt(absl::string_view what) const;

  const CaptureReaderOptions options_;
  InputFile file_;
  std::unique_ptr<ZSTD_DCtx_s, size_t (*)(ZSTD_DCtx_s*)> context_;
  std::string input_;      // compressed bytes read from the file
  size_t input_used_ = 0;  // of them given to zstd
  std::string content_;    // the inflated frame
  size_t content_used_ = 0;
  uint64_t frame_offset_ = 0;  // of the frame in the file
  uint64_t records_ = 0;
  bool ended_ = false;
  absl::Status failed_;
  StreamOrder order_;
};

}  // namespace foreshock::capture
