#include "daemon/http/server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/mutex.h"
#include "daemon/base/status_macros.h"
#include "daemon/http/connection.h"
#include "daemon/http/listener.h"
#include "daemon/http/routes.h"
#include "daemon/http/waiting_room.h"

namespace foreshock::http {
namespace {

using internal::Connection;
using internal::Listener;
using internal::PeerAddress;
using internal::Routes;
using internal::WaitingRoom;

constexpr int kBacklog = 128;
constexpr size_t kPathBytesMax = 1024;
constexpr int kOutOfFilesPauseMs = 100;

// The library's parser and writer over our connection.
class Stream final : public httplib::Stream {
 public:
  explicit Stream(Connection* connection) : connection_(connection) {}
  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override { return connection_->Read(to, size); }
  ssize_t write(const char* from, size_t size) override { return connection_->Write(from, size); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = connection_->peer_address();
    port = 0;
  }
  void get_local_ip_and_port(std::string&, int&) const override {}
  // The library only asks in order to refuse descriptors that select() cannot hold; we use poll.
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  Connection* connection_;
};

// Only the request parser and response writer of the library's server are used: sockets, threads
// and deadlines are ours.
class Engine final : public httplib::Server {
 public:
  using httplib::Server::process_request;
};

bool HasBody(const std::string& method) {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

// Absent: 0. Negative: not a number.
int64_t ContentLength(const httplib::Request& request) {
  if (!request.has_header("Content-Length")) return 0;
  int64_t bytes = -1;
  if (request.get_header_value_count("Content-Length") != 1 ||
      !absl::SimpleAtoi(request.get_header_value("Content-Length"), &bytes)) {
    return -1;
  }
  return bytes;
}

// The library would answer a browser with brotli at its slowest, which takes most of a second for
// the points of a plot; gzip takes a few milliseconds of them.
void AcceptGzipOnly(httplib::Request* request) {
  const bool gzip = absl::StrContains(request->get_header_value("Accept-Encoding"), "gzip");
  request->headers.erase("Accept-Encoding");
  if (gzip) request->set_header("Accept-Encoding", "gzip");
}

std::string ContentType(const httplib::Request& request) {
  const std::string value = request.get_header_value("Content-Type");
  return absl::AsciiStrToLower(absl::StripAsciiWhitespace(value.substr(0, value.find(';'))));
}

class BusyGuard {
 public:
  BusyGuard(base::Mutex* mutex, std::set<const Connection*>* set, const Connection* connection)
      : mutex_(mutex), set_(set), connection_(connection) {
    base::MutexLock lock(mutex_);
    set_->insert(connection_);
  }
  ~BusyGuard() {
    base::MutexLock lock(mutex_);
    set_->erase(connection_);
  }

 private:
  base::Mutex* mutex_;
  std::set<const Connection*>* set_;
  const Connection* connection_;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, security::TlsFiles* tls)
      : options_(std::move(options)),
        tls_(tls),
        waiting_(options_.connections_waiting_max, options_.threads) {
    SetUpEngine();
  }

  Routes& routes() { return routes_; }
  void Guard(HttpGuard guard) { guard_ = std::move(guard); }

  absl::StatusOr<std::string> Start() {
    FORESHOCK_ASSIGN_OR_RETURN(Listener listener, internal::Listen(options_.listen, kBacklog));
    listen_fd_ = listener.fd;
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) {
      close(listen_fd_);
      return absl::UnavailableError("listen: out of file descriptors");
    }
    started_ = true;
    accept_thread_ = std::thread([this] { AcceptLoop(); });
    const size_t threads = std::max<size_t>(options_.threads, 1);
    {
      base::MutexLock lock(&mutex_);
      workers_running_ = threads;
    }
    for (size_t i = 0; i < threads; ++i) workers_.emplace_back([this] { WorkLoop(); });
    return listener.address;
  }

  absl::Status Stop(absl::Duration deadline) {
    if (!started_) return absl::OkStatus();
    started_ = false;
    stopping_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t woken = write(wake_fd_, &one, sizeof(one));
    accept_thread_.join();
    waiting_.Close();
    const size_t cut = WaitThenCut(base::SteadyNow() + deadline);
    for (std::thread& worker : workers_) worker.join();
    close(listen_fd_);
    close(wake_fd_);
    if (cut == 0) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "http stop: ", cut, " connections were cut after ", absl::FormatDuration(deadline)));
  }

  HttpStats stats() const {
    return {.requests = requests_,
            .client_errors = client_errors_,
            .server_errors = server_errors_,
            .connections_refused = connections_refused_};
  }

 private:
  void SetUpEngine() {
    engine_.set_payload_max_length(options_.body_bytes_max);
    engine_.set_keep_alive_timeout(absl::ToInt64Seconds(options_.idle_timeout));
    engine_.set_default_headers(
        {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}});
    const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
      Fill(routes_.Answer(ToRequest(request)), &response);
    };
    // What can be answered without reading a body never reaches the library's regular expressions.
    engine_.set_pre_routing_handler(
        [this, answer](const httplib::Request& request, httplib::Response& response) {
          HttpResponse refusal = Refusal(request);
          if (refusal.status == 200) refusal = AskGuard(request);
          if (refusal.status != 200) {
            Fill(std::move(refusal), &response);
          } else if (HasBody(request.method)) {
            return httplib::Server::HandlerResponse::Unhandled;
          } else {
            answer(request, response);
          }
          return httplib::Server::HandlerResponse::Handled;
        });
    engine_.Post(".*", answer);
    engine_.Put(".*", answer);
    engine_.Patch(".*", answer);
    engine_.Delete(".*", answer);
    // For what the library refuses by itself.
    engine_.set_error_handler([this](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) {
        Fill(ErrorResponse(response.status, "INVALID_ARGUMENT",
                           absl::StrCat("not a request that can be answered: HTTP/1.1, at most ",
                                        options_.header_bytes_max, " bytes of headers and ",
                                        options_.body_bytes_max, " bytes of body are allowed")),
             &response);
      }
    });
    engine_.set_logger([this](const httplib::Request&, const httplib::Response& response) {
      ++requests_;
      if (response.status >= 500) {
        ++server_errors_;
      } else if (response.status >= 400) {
        ++client_errors_;
      }
    });
  }

  // Status 200: go on.
  HttpResponse AskGuard(const httplib::Request& request) const {
    const absl::Status status = guard_ == nullptr ? absl::OkStatus() : guard_(ToRequest(request));
    if (status.ok()) return {};
    HttpResponse response = ErrorResponse(status);
    if (absl::IsUnauthenticated(status)) {
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
    }
    return response;
  }

  // Status 200: go on.
  HttpResponse Refusal(const httplib::Request& request) const {
    const int64_t bytes = ContentLength(request);
    if (request.path.size() > kPathBytesMax) {
      return ErrorResponse(414, "INVALID_ARGUMENT",
                           absl::StrCat("the path has ", request.path.size(),
                                        " bytes, allowed are ", kPathBytesMax));
    }
    if (request.has_header("Transfer-Encoding")) {
      return ErrorResponse(411, "INVALID_ARGUMENT", "a body needs a Content-Length here");
    }
    if (request.has_header("Content-Encoding")) {
      return ErrorResponse(415, "INVALID_ARGUMENT", "a compressed body is not read here");
    }
    if (bytes < 0) return ErrorResponse(400, "INVALID_ARGUMENT", "Content-Length is no number");
    if (static_cast<uint64_t>(bytes) > options_.body_bytes_max) {
      return ErrorResponse(
          413, "OUT_OF_RANGE",
          absl::StrCat("the body has ", bytes, " bytes, allowed are ", options_.body_bytes_max));
    }
    return {};
  }

  static HttpRequest ToRequest(const httplib::Request& request) {
    return {.method = request.method,
            .path = request.path,
            .rest = "",
            .query = {request.params.begin(), request.params.end()},
            .content_type = ContentType(request),
            .body = request.body,
            .remote_address = request.remote_addr,
            .authorization = request.get_header_value("Authorization")};
  }

  static void Fill(HttpResponse from, httplib::Response* to) {
    to->status = from.status;
    to->body = std::move(from.body);
    to->headers.erase("Content-Type");
    to->set_header("Content-Type", from.content_type);
    to->set_header("Date",
                   absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()));
    for (const auto& [name, value] : from.headers) {
      to->headers.erase(name);  // the default one
      to->set_header(name, value);
    }
  }

  void AcceptLoop() {
    while (!stopping_) {
      pollfd entries[] = {{listen_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
      if (poll(entries, 2, -1) < 0 || entries[0].revents == 0) continue;
      const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
          base::LogEvery("http.accept", base::LogLevel::kError, "http", "out of file descriptors");
          poll(&entries[1], 1, kOutOfFilesPauseMs);
        }
        continue;
      }
      if (const auto refused = waiting_.Enter({fd, PeerAddress(fd)}); refused.has_value()) {
        ++connections_refused_;
        static constexpr absl::string_view kBusy =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
            "Connection: close\r\n\r\n";
        if (tls_ == nullptr) {
          [[maybe_unused]] const ssize_t sent =
              send(refused->fd, kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        close(refused->fd);
      }
    }
  }

  void WorkLoop() {
    while (const auto guest = waiting_.Next()) {
      const auto material = tls_ == nullptr ? nullptr : tls_->Current();
      try {
        Connection connection(guest->fd, material.get(),
                              tls_ != nullptr && tls_->options().http_client_cert);
        Serve(&connection, guest->address);
      } catch (const std::exception& error) {
        base::LogEvery("http.serve", base::LogLevel::kError, "http", "a connection failed",
                       {{"what", error.what()}});
      }
      waiting_.Leave(guest->address);
    }
    base::MutexLock lock(&mutex_);
    --workers_running_;
    worker_ended_.NotifyAll();
  }

  void Serve(Connection* connection, const std::string& address) {
    const BusyGuard busy(&mutex_, &busy_, connection);
    bool first = true;
    // An idle connection makes room as soon as another one waits for a thread.
    const auto give_up = [&] { return stopping_ || (!first && waiting_.Wanted(address)); };
    while (connection->WaitForRequest(options_.idle_timeout, give_up)) {
      connection->BeginRequest(options_.header_bytes_max, options_.read_timeout,
                               options_.write_timeout);
      Stream stream(connection);
      bool peer_closes = false;
      bool unread = true;  // until the headers were understood
      const auto prepare = [&](httplib::Request& request) {
        request.ranges.clear();  // parts of our pages are of no use, and cost memory
        AcceptGzipOnly(&request);
        const int64_t bytes = ContentLength(request);
        unread = Refusal(request).status != 200 || (bytes > 0 && !HasBody(request.method));
        if (unread || stopping_) {
          request.headers.erase("Connection");
          request.set_header("Connection", "close");
        }
        // Without a length the library reads the body until the peer closes.
        if (!request.has_header("Content-Length")) request.set_header("Content-Length", "0");
        connection->AllowBody(unread ? 0 : static_cast<size_t>(bytes));
      };
      const bool answered = engine_.process_request(stream, false, peer_closes, prepare);
      unread = unread || connection->has_unread_body();  // of a request that the guard refused
      if (answered && unread) connection->FinishUnread();
      if (!answered || peer_closes || unread || stopping_) break;
      first = false;
    }
  }

  size_t WaitThenCut(absl::Time deadline) {
    base::MutexLock lock(&mutex_);
    while (workers_running_ > 0) {
      const absl::Duration left = deadline - base::SteadyNow();
      if (left <= absl::ZeroDuration()) break;
      worker_ended_.WaitFor(&mutex_, left);
    }
    if (workers_running_ == 0) return 0;
    for (const Connection* connection : busy_) connection->Cut();
    return busy_.size();
  }

  const HttpOptions options_;
  security::TlsFiles* const tls_;  // null: plain
  Routes routes_;                  // constant after Start
  HttpGuard guard_;                // likewise; null: all may ask
  Engine engine_;                  // constant after the constructor
  WaitingRoom waiting_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> client_errors_{0};
  std::atomic<uint64_t> server_errors_{0};
  std::atomic<uint64_t> connections_refused_{0};

  mutable base::Mutex mutex_;
  base::CondVar worker_ended_;
  std::set<const Connection*> busy_ ABSL_GUARDED_BY(mutex_);
  size_t workers_running_ ABSL_GUARDED_BY(mutex_) = 0;

  // Only on the thread of Start and Stop.
  bool started_ = false;
  int listen_fd_ = -1;
  int wake_fd_ = -1;
  std::thread accept_thread_;
  std::vector<std::thread> workers_;
};

absl::Status CheckHttpAddress(const std::string& address) {
  return internal::CheckAddress(address);
}

HttpServer::HttpServer(HttpOptions options, security::TlsFiles* tls)
    : impl_(std::make_unique<Impl>(std::move(options), tls)) {}

HttpServer::~HttpServer() { Stop(absl::ZeroDuration()).IgnoreError(); }

void HttpServer::Handle(absl::string_view method, absl::string_view path, HttpHandler handler) {
  impl_->routes().Add(method, path, std::move(handler));
}

void HttpServer::Guard(HttpGuard guard) { impl_->Guard(std::move(guard)); }

absl::StatusOr<std::string> HttpServer::Start() { return impl_->Start(); }

absl::Status HttpServer::Stop(absl::Duration deadline) { return impl_->Stop(deadline); }

HttpStats HttpServer::stats() const { return impl_->stats(); }

}  // namespace foreshock::http
