#include "daemon/capture/fscap_reader.h"

#include <zstd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::capture {
namespace {

constexpr size_t kInputBytes = 128u << 10;
// Window of a frame: the largest zstd's level 19 uses is 8 MiB; beyond that a file could claim
// memory it does not need.
constexpr int kWindowLogMax = 24;
// Of a zstd frame: 4 bytes of magic, then a descriptor whose bit 2 announces the content checksum.
constexpr size_t kFrameDescriptorOffset = 4;
constexpr unsigned char kChecksumBit = 0x04;
constexpr size_t kLengthBytesMax = 5;  // a varint of 32 bits

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureReader>> FscapReader::Create(InputFile file,
                                                                   CaptureReaderOptions options) {
  char header[kFscapHeaderBytes];
  FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view seen, file.Peek(kFscapHeaderBytes));
  if (seen.size() < kFscapHeaderBytes) {
    return absl::DataLossError(absl::StrCat(
        "reading capture ", file.path(), ": the file ends at byte ", seen.size(),
        ", inside the header of ", kFscapHeaderBytes, " bytes; no record is readable"));
  }
  const uint8_t version = static_cast<uint8_t>(seen.back());
  if (version != kFscapVersion) {
    return absl::InvalidArgumentError(absl::StrCat("reading capture ", file.path(),
                                                   ": format version ", version,
                                                   ", this build reads version ", kFscapVersion));
  }
  for (size_t got = 0; got < kFscapHeaderBytes;) {
    FORESHOCK_ASSIGN_OR_RETURN(const size_t n, file.Read(header + got, kFscapHeaderBytes - got));
    got += n;
  }
  return std::unique_ptr<CaptureReader>(new FscapReader(std::move(file), options));
}

FscapReader::FscapReader(InputFile file, CaptureReaderOptions options)
    : options_(options), file_(std::move(file)), context_(ZSTD_createDCtx(), &ZSTD_freeDCtx) {
  ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kWindowLogMax);
}

FscapReader::~FscapReader() = default;

absl::StatusOr<bool> FscapReader::Next(v1::CaptureRecord* record) {
  if (!failed_.ok()) return failed_;
  if (ended_) return false;
  absl::StatusOr<bool> more = ReadRecord(record);
  if (!more.ok()) {
    failed_ = more.status();
    return more;
  }
  if (*more) {
    ++records_;
  } else {
    ended_ = true;
  }
  return more;
}

CaptureProgress FscapReader::progress() const {
  return {.records = records_, .bytes_read = file_.offset(), .bytes_total = file_.size()};
}

absl::StatusOr<bool> FscapReader::ReadRecord(v1::CaptureRecord* record) {
  while (content_used_ == content_.size()) FORESHOCK_RETURN_IF_ERROR(InflateFrame());

  uint64_t length = 0;
  size_t length_bytes = 0;
  while (true) {
    if (content_used_ + length_bytes == content_.size() || length_bytes == kLengthBytesMax) {
      return Corrupt("the length of the record is cut off or longer than 5 bytes");
    }
    const auto byte = static_cast<unsigned char>(content_[content_used_ + length_bytes]);
    length |= static_cast<uint64_t>(byte & 0x7f) << (7 * length_bytes);
    ++length_bytes;
    if ((byte & 0x80) == 0) break;
  }
  const size_t begin = content_used_ + length_bytes;
  if (length == 0) {
    if (begin != content_.size()) return Corrupt("bytes follow the end mark inside its frame");
    FORESHOCK_RETURN_IF_ERROR(ExpectEndOfFile());
    return false;
  }
  if (length > options_.record_bytes_max) {
    return Corrupt(
        absl::StrCat("the record has ", length, " bytes, allowed are ", options_.record_bytes_max));
  }
  if (length > content_.size() - begin) {
    return Corrupt(absl::StrCat("the record has ", length, " bytes, the frame holds ",
                                content_.size() - begin, " more"));
  }
  if (!record->ParseFromArray(content_.data() + begin, static_cast<int>(length))) {
    return Corrupt(absl::StrCat("the record's ", length, " bytes are no CaptureRecord"));
  }
  if (const absl::Status order = order_.Check(*record); !order.ok()) {
    return absl::Status(order.code(), Corrupt(order.message()).message());
  }
  content_used_ = begin + length;
  return true;
}

absl::Status FscapReader::InflateFrame() {
  content_.clear();
  content_used_ = 0;
  frame_offset_ = file_.offset() - (input_.size() - input_used_);
  ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only);

  const size_t content_bytes_max = kFrameContentBytes + options_.record_bytes_max + kLengthBytesMax;
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  size_t frame_bytes = 0;
  while (true) {
    if (input_used_ == input_.size()) FORESHOCK_RETURN_IF_ERROR(RefillInput());
    const size_t used_before = input_used_;
    ZSTD_inBuffer in{input_.data(), input_.size(), input_used_};
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    const size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
    input_used_ = in.pos;
    if (ZSTD_isError(left) != 0) {
      return Corrupt(absl::StrCat("zstd says: ", ZSTD_getErrorName(left)));
    }
    if (frame_bytes <= kFrameDescriptorOffset &&
        input_.size() - used_before > kFrameDescriptorOffset - frame_bytes &&
        (input_[used_before + kFrameDescriptorOffset - frame_bytes] & kChecksumBit) == 0) {
      return Corrupt("the zstd frame has no content checksum");
    }
    frame_bytes += in.pos - used_before;
    content_.append(piece.data(), out.pos);
    if (content_.size() > content_bytes_max) {
      return Corrupt(absl::StrCat("the frame holds more than ", content_bytes_max, " bytes"));
    }
    if (left == 0) return absl::OkStatus();
  }
}

absl::Status FscapReader::RefillInput() {
  input_.resize(kInputBytes);
  input_used_ = 0;
  const absl::StatusOr<size_t> got = file_.Read(input_.data(), input_.size());
  input_.resize(got.ok() ? *got : 0);
  FORESHOCK_RETURN_IF_ERROR(got.status());
  if (input_.empty()) {
    return Corrupt(absl::StrCat("the file ends at byte ", file_.offset(), " without an end mark"));
  }
  return absl::OkStatus();
}

absl::Status FscapReader::ExpectEndOfFile() {
  if (input_used_ == input_.size()) {
    char more;
    FORESHOCK_ASSIGN_OR_RETURN(const size_t got, file_.Read(&more, 1));
    if (got == 0) return absl::OkStatus();
  }
  return Corrupt("bytes follow the end mark");
}

absl::Status FscapReader::Corrupt(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat("reading capture ", file_.path(), ": record ",
                                          records_ + 1, " (frame at byte ", frame_offset_,
                                          ", byte ", content_used_, " of it): ", what, "; the ",
                                          records_, " records before it are good"));
}

}  // namespace foreshock::capture
