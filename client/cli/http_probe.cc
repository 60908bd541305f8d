#include "client/cli/http_probe.h"

#include <httplib.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace foreshock::cli {

absl::StatusOr<HttpAnswer> HttpGet(const std::string& address, const std::string& path,
                                   absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address: expected HOST:PORT, port 1 to 65535"));
  }
  httplib::Client client(address.substr(0, colon), port);
  const auto chrono_timeout = absl::ToChronoMicroseconds(timeout);
  client.set_connection_timeout(chrono_timeout);
  client.set_read_timeout(chrono_timeout);
  const httplib::Result result = client.Get(path.c_str());
  if (!result) {
    return absl::UnavailableError(
        absl::StrCat("GET http://", address, path, ": ", httplib::to_string(result.error())));
  }
  HttpAnswer answer{.status = result->status, .body = result->body};
  std::string error;
  absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", result->get_header_value("Date"), &answer.date,
                  &error);
  return answer;
}

}  // namespace foreshock::cli
