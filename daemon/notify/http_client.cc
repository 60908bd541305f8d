#include "daemon/notify/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/notify/secret.h"

namespace foreshock::notify {
namespace {

constexpr absl::Duration kRetryAfterMax = absl::Hours(1);
constexpr size_t kShownMax = 200;

// Once a process, before any thread uses the library.
void InitCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  FORESHOCK_CHECK(code == CURLE_OK);
}

struct BoundedBody {
  std::string* body = nullptr;
  size_t bytes_max = 0;
};

// Takes the first bytes_max and ends the transfer after them.
size_t TakeBody(char* data, size_t size, size_t count, void* user) {
  const auto& [body, bytes_max] = *static_cast<const BoundedBody*>(user);
  const size_t taken = std::min(bytes_max - body->size(), size * count);
  body->append(data, taken);
  return taken;
}

int AskCancelled(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(user)->load() ? 1 : 0;
}

struct SlistDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

}  // namespace

HttpClient::HttpClient(HttpClientOptions options, std::vector<std::string> secrets)
    : options_(std::move(options)),
      secrets_(std::move(secrets)),
      handle_((InitCurl(), curl_easy_init())) {
  FORESHOCK_CHECK(handle_ != nullptr);
}

HttpClient::~HttpClient() { curl_easy_cleanup(handle_); }

std::string HttpClient::Shown(const std::string& body) const {
  std::string shown = Redact(body, secrets_).substr(0, kShownMax);
  for (char& c : shown) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return std::string(absl::StripAsciiWhitespace(shown));
}

absl::StatusOr<HttpAnswer> HttpClient::Do(const HttpCall& call) {
  if (cancelled_) return absl::CancelledError("stopping");
  CURL* const curl = handle_;
  curl_easy_reset(curl);
  std::unique_ptr<curl_slist, SlistDeleter> list;
  // "Expect: 100-continue" is off: it costs a round trip, and with some receivers a second.
  for (const std::string& header : call.headers) {
    list.reset(curl_slist_append(list.release(), header.c_str()));
  }
  list.reset(curl_slist_append(list.release(), "Expect:"));
  std::array<char, CURL_ERROR_SIZE> error{};
  HttpAnswer answer;
  BoundedBody bounded{&answer.body, call.answer_bytes_max};
  curl_easy_setopt(curl, CURLOPT_URL, call.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  if (call.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
  } else {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "foreshockd");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options_.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options_.ca_file.c_str());
  if (!options_.proxy.empty()) curl_easy_setopt(curl, CURLOPT_PROXY, options_.proxy.c_str());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.timeout)));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, TakeBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &bounded);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, AskCancelled);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &cancelled_);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error.data());

  const CURLcode code = curl_easy_perform(curl);
  // The handle outlives the buffer.
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  // The status line says whether the receiver took it, even if the rest of the answer is lost.
  const bool answered = status >= 200 && (code == CURLE_OK || code == CURLE_WRITE_ERROR ||
                                          code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR);
  if (!answered) {
    if (cancelled_) return absl::CancelledError("stopping");
    const std::string detail = error[0] != '\0' ? error.data() : curl_easy_strerror(code);
    return absl::UnavailableError(absl::StrCat("no answer: ", Shown(detail)));
  }
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  answer.retry_after = std::clamp(absl::Seconds(static_cast<int64_t>(retry_after)),
                                  absl::ZeroDuration(), kRetryAfterMax);
  return answer;
}

SendResult ResultOf(const absl::StatusOr<HttpAnswer>& answer, const HttpPoster& poster) {
  using Outcome = SendResult::Outcome;
  if (!answer.ok()) return {.outcome = Outcome::kRetry, .status = answer.status()};
  const int status = answer->status;
  if (status >= 200 && status < 300) return {};
  const std::string body = poster.Shown(answer->body);
  const std::string what = absl::StrCat("HTTP ", status, body.empty() ? "" : ": ", body);
  if (status == 408 || status == 425 || status == 429 || status >= 500) {
    return {.outcome = Outcome::kRetry,
            .status = absl::UnavailableError(what),
            .retry_after = answer->retry_after};
  }
  return {.outcome = Outcome::kRefused, .status = absl::FailedPreconditionError(what)};
}

std::string CheckPlainUrl(const std::string& url) {
  const bool scheme = absl::StartsWith(url, "http://") || absl::StartsWith(url, "https://");
  if (!scheme) return "no http:// or https:// in front";
  std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  if (parsed == nullptr ||
      curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK) {
    return "no URL, or with a user and password in it";
  }
  for (const CURLUPart part : {CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    char* text = nullptr;
    const bool has = curl_url_get(parsed.get(), part, &text, 0) == CURLUE_OK;
    curl_free(text);
    if (has) return "with a query or fragment";
  }
  return "";
}

}  // namespace foreshock::notify
