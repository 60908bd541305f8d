// A receiver on a free port of loopback that answers as a test says, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/mutex.h"

namespace foreshock::notify {

inline std::string HttpResponse(int status, const std::string& headers = "",
                                const std::string& body = "") {
  return absl::StrCat("HTTP/1.1 ", status, " Text\r\nContent-Length: ", body.size(), "\r\n",
                      headers, "\r\n", body);
}

// One connection at a time, closed after its answer.
class HttpReceiver {
 public:
  // Gets a whole request; what it returns is sent as it is, and "hang" makes the receiver hold the
  // connection until it is destroyed.
  using Answer = std::function<std::string(const std::string& request)>;

  explicit HttpReceiver(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    FORESHOCK_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    FORESHOCK_CHECK(listen(listener_, 16) == 0);
    FORESHOCK_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    url_ = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Loop(); });
  }
  ~HttpReceiver() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    for (const int held : held_) close(held);
  }

  const std::string& url() const { return url_; }
  std::vector<std::string> requests() const {
    base::MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  void Loop() {
    while (true) {
      const int peer = accept(listener_, nullptr, nullptr);
      if (peer < 0) return;
      const std::string request = Read(peer);
      {
        base::MutexLock lock(&mutex_);
        requests_.push_back(request);
      }
      const std::string answer = answer_(request);
      if (answer == "hang") {
        held_.push_back(peer);
        continue;
      }
      (void)!send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
      close(peer);
    }
  }

  static std::string Read(int peer) {
    std::string request;
    char buffer[4096];
    while (true) {
      const size_t head = request.find("\r\n\r\n");
      if (head != std::string::npos) {
        const std::string lower = absl::AsciiStrToLower(request.substr(0, head));
        const size_t length = lower.find("content-length: ");
        size_t body = 0;
        if (length != std::string::npos) {
          (void)absl::SimpleAtoi(lower.substr(length + 16, lower.find('\r', length) - length - 16),
                                 &body);
        }
        if (request.size() >= head + 4 + body) return request;
      }
      const ssize_t got = recv(peer, buffer, sizeof(buffer), 0);
      if (got <= 0) return request;
      request.append(buffer, static_cast<size_t>(got));
    }
  }

  const Answer answer_;
  int listener_ = -1;
  std::string url_;
  std::vector<int> held_;  // only in the thread, and after it
  mutable base::Mutex mutex_;
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace foreshock::notify
