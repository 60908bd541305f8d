#include "daemon/http/connection.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace foreshock::http_internal {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{50};
constexpr milliseconds kUnreadTime{500};
constexpr size_t kUnreadBytes = 256u << 10;

}  // namespace

Connection::Connection(int fd) : fd_(fd) {}

Connection::~Connection() { close(fd_); }

bool Connection::WaitFor(short events, Steady::time_point deadline) const {
  pollfd entry{fd_, events, 0};
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Steady::now()).count();
    if (left <= 0) return false;
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Connection::WaitForRequest(Steady::duration idle, const std::function<bool()>& give_up) {
  if (begin_ < end_) return true;  // the peer sent several at once
  const Steady::time_point deadline = Steady::now() + idle;
  while (!give_up()) {
    const Steady::time_point now = Steady::now();
    if (now >= deadline) return false;
    if (WaitFor(POLLIN, std::min(deadline, now + kSlice))) {
      char byte;
      return recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
    }
  }
  return false;
}

void Connection::BeginRequest(size_t bytes, Steady::duration read, Steady::duration write) {
  bytes_left_ = bytes;
  read_deadline_ = Steady::now() + read;
  write_timeout_ = write;
  writing_ = false;
}

ssize_t Connection::Read(char* to, size_t size) {
  if (bytes_left_ == 0) return -1;
  if (begin_ == end_) {
    if (!WaitFor(POLLIN, read_deadline_)) return -1;
    const ssize_t got = recv(fd_, buffer_, sizeof(buffer_), 0);
    if (got <= 0) return got;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  const size_t taken = std::min({size, end_ - begin_, bytes_left_});
  std::memcpy(to, buffer_ + begin_, taken);
  begin_ += taken;
  bytes_left_ -= taken;
  return static_cast<ssize_t>(taken);
}

ssize_t Connection::Write(const char* from, size_t size) {
  if (!writing_) {
    writing_ = true;
    write_deadline_ = Steady::now() + write_timeout_;
  }
  if (!WaitFor(POLLOUT, write_deadline_)) return -1;
  return send(fd_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Connection::FinishUnread() {
  shutdown(fd_, SHUT_WR);
  const Steady::time_point deadline = Steady::now() + kUnreadTime;
  size_t swallowed = 0;
  while (swallowed < kUnreadBytes && WaitFor(POLLIN, deadline)) {
    const ssize_t got = recv(fd_, buffer_, sizeof(buffer_), MSG_DONTWAIT);
    if (got <= 0) return;
    swallowed += static_cast<size_t>(got);
  }
}

void Connection::Cut() const { shutdown(fd_, SHUT_RDWR); }

std::string Connection::peer_address() const {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  char host[NI_MAXHOST] = "";
  auto* generic = reinterpret_cast<sockaddr*>(&peer);
  if (getpeername(fd_, generic, &size) != 0 ||
      getnameinfo(generic, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return host;
}

}  // namespace foreshock::http_internal
