#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/http/server.h"

namespace foreshock::http {
namespace {

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

// JSON string of printable ASCII; every other byte of the text (which may be no UTF-8 at all) that
// could break a reader is escaped or replaced.
std::string JsonString(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (byte < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", byte);
    } else if (byte >= 0x7f) {
      quoted += '?';
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

HttpResponse ErrorResponse(int http_status, absl::string_view code, absl::string_view message) {
  return {.status = http_status,
          .content_type = "application/json",
          .body = absl::StrCat("{\"code\": ", JsonString(code),
                               ", \"message\": ", JsonString(message), "}\n")};
}

HttpResponse ErrorResponse(const absl::Status& status) {
  return ErrorResponse(HttpStatusOf(status.code()), absl::StatusCodeToString(status.code()),
                       status.message());
}

}  // namespace foreshock::http
