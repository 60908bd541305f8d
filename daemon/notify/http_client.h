// HTTP for notifiers: verified TLS, bounded in time and bytes, no redirects.
//
//   HttpClient client({.timeout = absl::Seconds(10)}, {secret});
//   absl::StatusOr<HttpAnswer> answer = client.Post(url, {"Content-Type: application/json"}, body);
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/notify/notifier.h"

namespace foreshock::notify {

struct HttpCall {
  std::string method = "POST";
  std::string url{};
  std::vector<std::string> headers{};
  absl::string_view body{};            // of a POST
  size_t answer_bytes_max = 4u << 10;  // of the answer's body; the rest is cut off
};

struct HttpAnswer {
  int status = 0;
  absl::Duration retry_after{};  // of a Retry-After in seconds, at most an hour; else zero
  std::string body{};            // its beginning, at most answer_bytes_max
};

// Used by one thread, but for Cancel. Tests put a fake in its place.
class HttpPoster {
 public:
  virtual ~HttpPoster() = default;
  // Unavailable: no answer came; Cancelled: after Cancel. No message contains a secret.
  virtual absl::StatusOr<HttpAnswer> Do(const HttpCall& call) = 0;
  absl::StatusOr<HttpAnswer> Post(std::string url, std::vector<std::string> headers,
                                  absl::string_view body) {
    return Do({.url = std::move(url), .headers = std::move(headers), .body = body});
  }
  virtual void Cancel() {}
  // The part of an answer's body that may be shown: one line, without secrets.
  virtual std::string Shown(const std::string& body) const { return body; }
};

struct HttpClientOptions {
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration timeout = absl::Seconds(10);  // of a whole request
  std::string ca_file{};                       // PEM; empty: the system's
  std::string proxy{};  // empty: http_proxy, https_proxy and no_proxy of the environment
};

class HttpClient final : public HttpPoster {
 public:
  // Every message has "***" in place of the `secrets`.
  HttpClient(HttpClientOptions options, std::vector<std::string> secrets);
  ~HttpClient() override;

  absl::StatusOr<HttpAnswer> Do(const HttpCall& call) override;
  void Cancel() override { cancelled_ = true; }
  std::string Shown(const std::string& body) const override;

 private:
  const HttpClientOptions options_;
  const std::vector<std::string> secrets_;
  std::atomic<bool> cancelled_{false};
  void* const handle_;  // libcurl's; it keeps connections open
};

// What an answer means. 2xx: taken. 408, 425, 429, 5xx and no answer: try again, after Retry-After
// where it is given. Anything else, redirects too: refused for good.
SendResult ResultOf(const absl::StatusOr<HttpAnswer>& answer, const HttpPoster& poster);

// "" or what is wrong with a URL that the configuration shows in plain sight. Allowed is an
// absolute http or https URL without user, query and fragment: secrets belong into files.
std::string CheckPlainUrl(const std::string& url);

}  // namespace foreshock::notify
