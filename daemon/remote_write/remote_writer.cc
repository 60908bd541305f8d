#include "daemon/remote_write/remote_writer.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"

namespace foreshock::remote_write {
namespace {

absl::StatusOr<std::string> SecretOf(const notify::SecretSource& source,
                                     std::vector<std::string>* secrets) {
  if (!source.given()) return std::string();
  FORESHOCK_ASSIGN_OR_RETURN(std::string secret, notify::ReadSecret(source));
  secrets->push_back(secret);
  return secret;
}

struct Request {
  std::string url{};
  std::vector<std::string> headers{};
  std::vector<std::string> secrets{};
};

absl::StatusOr<Request> RequestOf(const RemoteWriteOptions& options) {
  Request request{.url = options.url,
                  .headers = {"Content-Type: application/x-protobuf", "Content-Encoding: snappy",
                              "X-Prometheus-Remote-Write-Version: 0.1.0"}};
  FORESHOCK_ASSIGN_OR_RETURN(const std::string url, SecretOf(options.url_source, &request.secrets));
  if (!url.empty()) {
    if (!absl::StartsWith(url, "http://") && !absl::StartsWith(url, "https://")) {
      return absl::InvalidArgumentError("the secret URL has no http:// or https:// in front");
    }
    request.url = url;
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::string token,
                             SecretOf(options.bearer_token, &request.secrets));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string password,
                             SecretOf(options.password, &request.secrets));
  if (!token.empty()) request.headers.push_back(absl::StrCat("Authorization: Bearer ", token));
  if (!options.username.empty()) {
    const std::string both = absl::Base64Escape(absl::StrCat(options.username, ":", password));
    request.secrets.push_back(both);
    request.headers.push_back(absl::StrCat("Authorization: Basic ", both));
  }
  for (const auto& [name, value] : options.headers) {
    request.headers.push_back(absl::StrCat(name, ": ", value));
  }
  return request;
}

// As a scrape would name them.
std::map<std::string, std::string> LabelsOf(const RemoteWriteOptions& options) {
  std::map<std::string, std::string> labels = options.external_labels;
  labels.try_emplace("job", "foreshock");
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) labels.try_emplace("instance", host.data());
  return labels;
}

double Uniform() {
  thread_local absl::BitGen random;
  return absl::Uniform(random, 0.0, 1.0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteWriter>> RemoteWriter::Create(
    const RemoteWriteOptions& options, Deps deps) {
  FORESHOCK_CHECK(deps.read && deps.clock != nullptr);
  absl::StatusOr<Request> request = RequestOf(options);
  FORESHOCK_RETURN_IF_ERROR(
      base::Annotate(request.status(), absl::StrCat("remote_write '", options.name, "'")));
  auto poster = std::make_unique<notify::HttpClient>(options.http, request->secrets);
  RemoteSendQueue::Options queue{.name = options.name,
                                 .url = request->url,
                                 .headers = request->headers,
                                 .bytes_max = options.queue_bytes_max};
  return std::unique_ptr<RemoteWriter>(
      new RemoteWriter(options, std::move(deps), std::move(queue), std::move(poster)));
}

RemoteWriter::RemoteWriter(const RemoteWriteOptions& options, Deps deps,
                           RemoteSendQueue::Options queue,
                           std::unique_ptr<notify::HttpPoster> poster)
    : name_(options.name),
      interval_(options.interval),
      deps_(std::move(deps)),
      encoder_(LabelsOf(options)),
      queue_(std::move(queue), std::move(poster), Uniform) {}

RemoteWriter::~RemoteWriter() { Stop(absl::ZeroDuration()); }

void RemoteWriter::Start() {
  reader_ = std::thread([this] { ReadLoop(); });
  sender_ = std::thread([this] { SendLoop(); });
}

void RemoteWriter::Stop(absl::Duration grace) {
  if (!reader_.joinable()) return;
  const absl::Time until = deps_.clock->Steady() + grace;
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  reader_.join();
  {
    base::MutexLock lock(&mutex_);
    while (!sent_all_) {
      const absl::Duration left = until - deps_.clock->Steady();
      if (left <= absl::ZeroDuration()) break;
      changed_.WaitFor(&mutex_, left);
    }
  }
  queue_.Cancel();
  sender_.join();
  if (const size_t lost = queue_.stats().queue_samples; lost > 0) {
    base::LogWarning("remote_write", "what the receiver has not taken is lost with this process",
                     {{"remote", name_}, {"samples", absl::StrCat(lost)}});
  }
}

void RemoteWriter::ReadLoop() {
  absl::Time next = deps_.clock->Steady();
  while (true) {
    const absl::Time now = deps_.clock->Now();
    queue_.Add(encoder_.Encode(deps_.read(), now));
    base::MutexLock lock(&mutex_);
    if (stop_) {  // a millisecond later: a series has one value at a time
      queue_.Add(encoder_.Encode({}, now + absl::Milliseconds(1)));
      reading_ = false;
      added_ = true;  // at once with it: the sender ends when nothing is read and nothing added
      changed_.NotifyAll();
      return;
    }
    added_ = true;
    changed_.NotifyAll();
    // Behind by more than an interval: nothing is made up for.
    next = std::max(next + interval_, deps_.clock->Steady());
    while (!stop_) {
      const absl::Duration left = next - deps_.clock->Steady();
      if (left <= absl::ZeroDuration()) break;
      changed_.WaitFor(&mutex_, left);
    }
  }
}

void RemoteWriter::SendLoop() {
  while (true) {
    const absl::Time next = queue_.Turn(deps_.clock->Steady());
    base::MutexLock lock(&mutex_);
    while (!added_) {
      const absl::Duration left = next - deps_.clock->Steady();
      if (left <= absl::ZeroDuration()) break;
      if (stop_ && !reading_) {  // nothing more comes, and what is left would have to wait
        sent_all_ = true;
        changed_.NotifyAll();
        return;
      }
      if (left == absl::InfiniteDuration()) {
        changed_.Wait(&mutex_);
      } else {
        changed_.WaitFor(&mutex_, left);
      }
    }
    added_ = false;
  }
}

absl::Status CheckRemoteWrites(const std::vector<RemoteWriteOptions>& all) {
  for (const RemoteWriteOptions& options : all) {
    FORESHOCK_RETURN_IF_ERROR(base::Annotate(RequestOf(options).status(),
                                             absl::StrCat("remote_write '", options.name, "'")));
  }
  return absl::OkStatus();
}

}  // namespace foreshock::remote_write
