#include "client/cli/log_lines.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {

absl::StatusOr<bool> LogLines::Next() {
  constexpr size_t kChunk = 128u << 10;
  constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
  line_.clear();
  cut_ = false;
  bool any = false;
  while (true) {
    if (used_ == chunk_.size()) {
      chunk_.resize(kChunk);
      used_ = 0;
      const absl::StatusOr<size_t> got = file_.Read(chunk_.data(), chunk_.size());
      chunk_.resize(got.ok() ? *got : 0);
      FORESHOCK_RETURN_IF_ERROR(got.status());
      if (chunk_.empty()) break;
    }
    any = true;
    const size_t end = std::min(chunk_.find('\n', used_), chunk_.size());
    const size_t room = kLineBytesMax - line_.size();
    cut_ = cut_ || end - used_ > room;
    line_.append(chunk_, used_, std::min(end - used_, room));
    used_ = std::min(end + 1, chunk_.size());
    if (end < chunk_.size()) break;
  }
  if (!any) return false;
  ++number_;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  if (number_ == 1 && absl::StartsWith(line_, kByteOrderMark)) {
    line_.erase(0, kByteOrderMark.size());
  }
  return true;
}

absl::StatusOr<std::string> LogLines::Rest() {
  std::string rest = chunk_.substr(used_);
  used_ = chunk_.size();
  std::string piece(1u << 20, '\0');
  while (true) {
    FORESHOCK_ASSIGN_OR_RETURN(const size_t got, file_.Read(piece.data(), piece.size()));
    if (got == 0) return rest;
    if (rest.size() + got > kRestBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(path(), ": longer than ", kRestBytesMax,
                                                     " bytes; write one object a line instead"));
    }
    rest.append(piece, 0, got);
  }
}

std::string LogLines::At(uint64_t line, size_t byte) const {
  return absl::StrCat(path(), ":", line, ":", byte + 1);
}

}  // namespace foreshock::cli
