// The daemon's one HTTP port: exact routes, bounded in everything, no path to the file system.
//
//   HttpServer server({.listen = "127.0.0.1:0"});
//   server.Handle("GET", "/-/healthy", [](const HttpRequest&) { return HttpResponse{.body =
//   "ok\n"}; }); FORESHOCK_ASSIGN_OR_RETURN(const std::string address, server.Start());   //
//   "127.0.0.1:40123"
//   ...
//   FORESHOCK_RETURN_IF_ERROR(server.Stop(absl::Seconds(5)));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/security/tls_files.h"

namespace foreshock::http {

struct HttpRequest {
  std::string method;                                      // "GET" for HEAD too
  std::string path;                                        // decoded, without the query
  std::string rest;                                        // what the '*' of the route stands for
  std::vector<std::pair<std::string, std::string>> query;  // decoded, sorted by name
  std::string content_type;  // of the body: lower case, without parameters
  std::string body;
  std::string remote_address;
  std::string authorization = {};  // the header
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Called from several threads at once. An exception becomes a 500.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// Whether a request may be answered at all, asked before its body is read and its page is looked
// for.
using HttpGuard = std::function<absl::Status(const HttpRequest&)>;

struct HttpOptions {
  std::string listen = "127.0.0.1:0";  // host:port, [IPv6]:port or :port; port 0 picks a free one
  size_t threads = 4;                  // requests answered at once
  // Accepted and waiting for a thread. Of more than that, and of the threads, no client's address
  // gets all (waiting_room.h); who must go gets a 503.
  size_t connections_waiting_max = 256;
  size_t header_bytes_max = 16u << 10;  // request line and headers together; a line is <= 8 KiB
  size_t body_bytes_max = 1u << 20;
  absl::Duration read_timeout = absl::Seconds(5);    // first to last byte of a request
  absl::Duration write_timeout = absl::Seconds(30);  // first to last byte of a response
  absl::Duration idle_timeout = absl::Seconds(5);    // before a request on an open connection
};

struct HttpStats {
  uint64_t requests = 0;
  uint64_t client_errors = 0;        // answered 4xx
  uint64_t server_errors = 0;        // answered 5xx
  uint64_t connections_refused = 0;  // no room to wait for a thread
};

// InvalidArgument for an address of HttpOptions that cannot be read; resolves nothing.
absl::Status CheckHttpAddress(const std::string& address);

// Handle before Start; Start and Stop from one thread, once each; the rest is thread-safe.
class HttpServer {
 public:
  // `tls` may be null: plain HTTP; it outlives the server.
  explicit HttpServer(HttpOptions options, security::TlsFiles* tls = nullptr);
  ~HttpServer();  // Stop(0)
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // `path` matches exactly, or as a prefix when it ends in '*' (one or more characters follow; the
  // longest match wins). GET answers HEAD too. A path with other methods only is 405 with Allow, an
  // unknown one 404, both as JSON.
  void Handle(absl::string_view method, absl::string_view path, HttpHandler handler);

  // Before Start, once at most. An error is the answer: 401 or 403, as its code says.
  void Guard(HttpGuard guard);

  // Binds, listens and returns the bound address. Errors: InvalidArgument for an address that
  // cannot be read or resolved, AlreadyExists when the port is in use, PermissionDenied,
  // Unavailable.
  absl::StatusOr<std::string> Start();

  // No new connections; requests being answered may finish until `deadline`, then their
  // connections are cut (DeadlineExceeded says how many). Returns when no handler runs any more.
  absl::Status Stop(absl::Duration deadline);

  HttpStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// {"code": "NOT_FOUND", "message": "..."} with the HTTP status that fits the code.
HttpResponse ErrorResponse(const absl::Status& status);

// The same with an HTTP status of its own.
HttpResponse ErrorResponse(int http_status, absl::string_view code, absl::string_view message);

}  // namespace foreshock::http
