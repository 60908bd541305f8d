#include "daemon/capture/jsonl_reader.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::capture {
namespace {

constexpr size_t kChunkBytes = 128u << 10;
// Base64 makes 4 bytes of 3, numbers as text grow more; a line over this cannot be a legal record.
constexpr size_t kTextBytesPerRecordByte = 4;

}  // namespace

JsonlReader::JsonlReader(InputFile file, CaptureReaderOptions options)
    : options_(options), file_(std::move(file)) {}

absl::StatusOr<bool> JsonlReader::Next(v1::CaptureRecord* record) {
  if (!failed_.ok()) return failed_;
  absl::StatusOr<bool> more = ReadRecord(record);
  if (!more.ok()) {
    failed_ = more.status();
  } else if (*more) {
    ++records_;
  }
  return more;
}

CaptureProgress JsonlReader::progress() const {
  return {.records = records_,
          .bytes_read = file_.offset() - (input_.size() - input_used_),
          .bytes_total = file_.size()};
}

absl::StatusOr<bool> JsonlReader::ReadRecord(v1::CaptureRecord* record) {
  absl::string_view text;
  do {
    FORESHOCK_ASSIGN_OR_RETURN(const bool more, ReadLine());
    if (!more) return false;
    text = absl::StripAsciiWhitespace(line_);
  } while (text.empty());

  record->Clear();
  const google::protobuf::util::Status parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), record);
  if (!parsed.ok()) return Bad(absl::StrCat("no CaptureRecord in JSON: ", parsed.ToString()));
  if (record->ByteSizeLong() > options_.record_bytes_max) {
    return Bad(absl::StrCat("the record has ", record->ByteSizeLong(), " bytes, allowed are ",
                            options_.record_bytes_max));
  }
  if (const absl::Status order = order_.Check(*record); !order.ok()) return Bad(order.message());
  return true;
}

absl::StatusOr<bool> JsonlReader::ReadLine() {
  line_.clear();
  ++line_number_;
  const size_t line_bytes_max = options_.record_bytes_max * kTextBytesPerRecordByte;
  while (true) {
    if (input_used_ == input_.size()) {
      input_.resize(kChunkBytes);
      input_used_ = 0;
      const absl::StatusOr<size_t> got = file_.Read(input_.data(), input_.size());
      input_.resize(got.ok() ? *got : 0);
      FORESHOCK_RETURN_IF_ERROR(got.status());
      if (input_.empty()) return !line_.empty();
    }
    const size_t end = input_.find('\n', input_used_);
    const size_t stop = end == std::string::npos ? input_.size() : end;
    line_.append(input_, input_used_, stop - input_used_);
    if (line_.size() > line_bytes_max) {
      return Bad(absl::StrCat("the line is longer than ", line_bytes_max, " bytes"));
    }
    input_used_ = stop;
    if (end != std::string::npos) {
      ++input_used_;
      return true;
    }
  }
}

absl::Status JsonlReader::Bad(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(file_.path(), ":", line_number_, ": ", what,
                                                 "; the ", records_,
                                                 " records before it are good"));
}

}  // namespace foreshock::capture
