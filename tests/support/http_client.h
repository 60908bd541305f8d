// A tiny HTTP client for tests: says exactly the bytes it is told, and reads until the other side
// closes or the announced body is there. Every wait ends after 10 s.
#pragma once

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace foreshock::support {

struct HttpReply {
  int status = 0;       // 0: no answer
  std::string headers;  // lower case, with the status line
  std::string body;
};

class HttpPeer {
 public:
  // `address` as HttpServer::Start returned it.
  explicit HttpPeer(const std::string& address) {
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) return;
    fd_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd_, found->ai_addr, found->ai_addrlen) != 0) {
      close(fd_);
      fd_ = -1;
    }
    freeaddrinfo(found);
  }
  ~HttpPeer() {
    if (fd_ >= 0) close(fd_);
  }
  HttpPeer(const HttpPeer&) = delete;
  HttpPeer& operator=(const HttpPeer&) = delete;

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }  // for who speaks TLS over it

  bool Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }

  // The next response; `head` when it is one to a HEAD request, which has no body.
  HttpReply Receive(bool head = false) {
    while (buffer_.find("\r\n\r\n") == std::string::npos) {
      if (!More()) return {};
    }
    const size_t end = buffer_.find("\r\n\r\n") + 4;
    HttpReply reply;
    reply.headers = absl::AsciiStrToLower(buffer_.substr(0, end));
    buffer_.erase(0, end);
    if (!absl::SimpleAtoi(reply.headers.substr(9, 3), &reply.status)) return {};
    size_t bytes = 0;
    for (const auto line : absl::StrSplit(reply.headers, "\r\n")) {
      if (absl::StartsWith(line, "content-length: ")) {
        if (!absl::SimpleAtoi(line.substr(16), &bytes)) return {};
      }
    }
    if (head) return reply;
    while (buffer_.size() < bytes && More()) {
    }
    reply.body = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return reply;
  }

  // True when the other side has closed and everything was read.
  bool AtEnd() { return buffer_.empty() && !More(); }

 private:
  bool More() {
    char chunk[65536];
    const ssize_t n = recv(fd_, chunk, sizeof(chunk), 0);
    if (n <= 0) return false;
    buffer_.append(chunk, static_cast<size_t>(n));
    return true;
  }

  int fd_ = -1;
  std::string buffer_;
};

// `headers`: more of them, each with its line's end.
inline HttpReply HttpCall(const std::string& address, const std::string& method,
                          const std::string& target, const std::string& body = "",
                          const std::string& headers = "") {
  HttpPeer peer(address);
  std::string request = absl::StrCat(method, " ", target, " HTTP/1.1\r\nHost: test\r\n",
                                     "Connection: close\r\n", headers);
  if (!body.empty()) absl::StrAppend(&request, "Content-Length: ", body.size(), "\r\n");
  if (!peer.connected() || !peer.Send(absl::StrCat(request, "\r\n", body))) return {};
  return peer.Receive(method == "HEAD");
}

inline HttpReply HttpGet(const std::string& address, const std::string& target) {
  return HttpCall(address, "GET", target);
}

}  // namespace foreshock::support
