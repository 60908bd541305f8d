#include "daemon/http/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/base/clock.h"

namespace foreshock::http::internal {
namespace {

constexpr absl::Duration kSlice = absl::Milliseconds(50);
constexpr absl::Duration kUnreadTime = absl::Milliseconds(500);
constexpr size_t kUnreadBytes = 256u << 10;

}  // namespace

std::string PeerAddress(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  char host[NI_MAXHOST] = "";
  auto* generic = reinterpret_cast<sockaddr*>(&peer);
  if (getpeername(fd, generic, &size) != 0 ||
      getnameinfo(generic, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return host;
}

Connection::Connection(int fd, const security::TlsMaterial* tls, bool client_cert)
    : fd_(fd), tls_(tls == nullptr ? nullptr : SSL_new(tls->context.get()), SSL_free) {
  if (tls_ == nullptr) return;
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  SSL_set_fd(tls_.get(), fd_);
  if (client_cert) {
    SSL_set_verify(tls_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
}

Connection::~Connection() {
  if (greeted_) SSL_shutdown(tls_.get());
  close(fd_);
}

bool Connection::WaitFor(short events, absl::Time deadline) const {
  pollfd entry{fd_, events, 0};
  while (true) {
    // Rounded up, so that the wait does not end just before the deadline.
    const int64_t left =
        absl::ToInt64Milliseconds(absl::Ceil(deadline - base::SteadyNow(), absl::Milliseconds(1)));
    if (left <= 0) return false;
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Connection::WaitForTls(int result, absl::Time deadline) const {
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return WaitFor(POLLIN, deadline);
    case SSL_ERROR_WANT_WRITE:
      return WaitFor(POLLOUT, deadline);
    default:
      return false;
  }
}

bool Connection::Handshake(absl::Time deadline, const std::function<bool()>& give_up) {
  while (!give_up() && base::SteadyNow() < deadline) {
    ERR_clear_error();
    const int result = SSL_accept(tls_.get());
    if (result == 1) return greeted_ = true;
    const int wants = SSL_get_error(tls_.get(), result);
    if (wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE) {
      FinishUnread();  // so that the peer gets the alert that says why
      return false;
    }
    WaitFor(wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT,
            std::min(deadline, base::SteadyNow() + kSlice));
  }
  return false;
}

ssize_t Connection::Receive(absl::Time deadline) {
  ssize_t got = -1;
  if (tls_ == nullptr) {
    if (!WaitFor(POLLIN, deadline)) return -1;
    got = recv(fd_, buffer_, sizeof(buffer_), 0);
  } else {
    int result = 0;
    do {
      ERR_clear_error();
      result = SSL_read(tls_.get(), buffer_, sizeof(buffer_));
    } while (result <= 0 && WaitForTls(result, deadline));
    got = result;
  }
  if (got <= 0) return got;
  begin_ = 0;
  end_ = static_cast<size_t>(got);
  return got;
}

bool Connection::WaitForRequest(absl::Duration idle, const std::function<bool()>& give_up) {
  if (begin_ < end_) return true;  // the peer sent several at once
  const absl::Time deadline = base::SteadyNow() + idle;
  if (tls_ != nullptr && !greeted_ && !Handshake(deadline, give_up)) return false;
  while (!give_up()) {
    const absl::Time now = base::SteadyNow();
    if (now >= deadline) return false;
    if (tls_ != nullptr && SSL_pending(tls_.get()) > 0) return true;
    if (tls_ != nullptr) {
      ERR_clear_error();
      const int result = SSL_peek(tls_.get(), buffer_, 1);
      if (result > 0) return true;
      if (SSL_get_error(tls_.get(), result) != SSL_ERROR_WANT_READ) return false;
      WaitFor(POLLIN, std::min(deadline, now + kSlice));
    } else if (WaitFor(POLLIN, std::min(deadline, now + kSlice))) {
      char byte;
      return recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
    }
  }
  return false;
}

void Connection::BeginRequest(size_t bytes, absl::Duration read, absl::Duration write) {
  bytes_left_ = bytes;
  read_deadline_ = base::SteadyNow() + read;
  write_timeout_ = write;
  writing_ = false;
}

ssize_t Connection::Read(char* to, size_t size) {
  if (bytes_left_ == 0) return -1;
  if (begin_ == end_) {
    if (const ssize_t got = Receive(read_deadline_); got <= 0) return got;
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
    write_deadline_ = base::SteadyNow() + write_timeout_;
  }
  if (!WaitFor(POLLOUT, write_deadline_)) return -1;
  if (tls_ != nullptr) {
    int result = 0;
    do {
      ERR_clear_error();
      result = SSL_write(tls_.get(), from, static_cast<int>(std::min<size_t>(size, 1u << 20)));
    } while (result <= 0 && WaitForTls(result, write_deadline_));
    return result > 0 ? result : -1;
  }
  return send(fd_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Connection::FinishUnread() {
  if (greeted_) SSL_shutdown(tls_.get());
  shutdown(fd_, SHUT_WR);
  const absl::Time deadline = base::SteadyNow() + kUnreadTime;
  size_t swallowed = 0;
  while (swallowed < kUnreadBytes && WaitFor(POLLIN, deadline)) {
    const ssize_t got = recv(fd_, buffer_, sizeof(buffer_), MSG_DONTWAIT);
    if (got <= 0) return;
    swallowed += static_cast<size_t>(got);
  }
}

void Connection::Cut() const { shutdown(fd_, SHUT_RDWR); }

}  // namespace foreshock::http::internal
