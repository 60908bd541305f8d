#include "daemon/capture/stream_order.h"

#include "absl/strings/str_cat.h"

namespace foreshock::capture {

absl::Status StreamOrder::Check(const v1::CaptureRecord& record) {
  const auto kind = record.message().message_case();
  if (kind == v1::PushRequest::MESSAGE_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stream ", record.stream(), ": no message; hello, report or goodbye is needed"));
  }
  const auto it = streams_.find(record.stream());
  if (it == streams_.end()) {
    if (kind != v1::PushRequest::kHello) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stream ", record.stream(), ": its first message is a ",
          kind == v1::PushRequest::kReport ? "report" : "goodbye", ", a hello is needed"));
    }
    if (streams_.size() >= kStreamsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("stream ", record.stream(), ": more than ", kStreamsMax, " streams"));
    }
    streams_.emplace(record.stream(), State::kOpen);
    return absl::OkStatus();
  }
  if (it->second == State::kEnded) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream ", record.stream(), ": a message after its goodbye"));
  }
  if (kind == v1::PushRequest::kHello) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stream ", record.stream(), ": a second hello; a new launch takes a new stream number"));
  }
  if (kind == v1::PushRequest::kGoodbye) it->second = State::kEnded;
  return absl::OkStatus();
}

}  // namespace foreshock::capture
