#include "daemon/capture/reader.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/fscap_reader.h"
#include "daemon/capture/input_file.h"
#include "daemon/capture/jsonl_reader.h"

namespace foreshock::capture {

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::Open(const std::string& path,
                                                                   CaptureReaderOptions options) {
  FORESHOCK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view front, file.Peek(InputFile::kPeekBytesMax));
  if (front.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("opening capture ", path, ": it is empty"));
  }
  // A file cut off inside the magic is still a capture, one of which nothing is readable.
  if (absl::StartsWith(front, kFscapMagic) || absl::StartsWith(kFscapMagic, front)) {
    return FscapReader::Create(std::move(file), options);
  }
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(front), "{")) {
    return std::unique_ptr<CaptureReader>(new JsonlReader(std::move(file), options));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("opening capture ", path,
                   ": neither .fscap (it would begin with \"FSCAP\") nor .jsonl (with \"{\")"));
}

}  // namespace foreshock::capture
