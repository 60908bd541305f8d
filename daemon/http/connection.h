// One accepted socket with what the HTTP library does not bound: the bytes of a request, the time
// of a whole request and of a whole response; with TLS where the port has it. Internal to http/.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/security/tls_files.h"

struct ssl_st;  // SSL

namespace foreshock::http::internal {

// "10.1.2.3", without the port; "" of a peer that is gone.
std::string PeerAddress(int fd);

// Thread-compatible; Cut may be called from another thread.
class Connection {
 public:
  // Takes ownership of `fd`. `tls` may be null: plain HTTP; with `client_cert` the peer must have
  // one.
  Connection(int fd, const security::TlsMaterial* tls, bool client_cert);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits for the first byte of a request, after the handshake of TLS. False when none came in
  // time, the peer closed or may not come in, or `give_up` said so (asked every 50 ms).
  bool WaitForRequest(absl::Duration idle, const std::function<bool()>& give_up);

  // From now on at most `bytes` may be read, before `read` has passed; the response's clock starts
  // with its first byte.
  void BeginRequest(size_t bytes, absl::Duration read, absl::Duration write);
  // After the headers: exactly this much of a body may follow.
  void AllowBody(size_t bytes) { bytes_left_ = bytes; }
  bool has_unread_body() const { return bytes_left_ > 0; }

  // As read(2) and send(2), but -1 when a limit was hit. Never raise a signal.
  ssize_t Read(char* to, size_t size);
  ssize_t Write(const char* from, size_t size);

  // For a peer that is still sending what nobody will read: ends the response and swallows a
  // little, so that the response is not lost to a reset.
  void FinishUnread();

  // Ends reads and writes at once.
  void Cut() const;

  std::string peer_address() const { return PeerAddress(fd_); }

 private:
  static constexpr size_t kBufferBytes = 4096;

  bool WaitFor(short events, absl::Time deadline) const;
  // Up to a slice at a time, so that `give_up` is asked.
  bool Handshake(absl::Time deadline, const std::function<bool()>& give_up);
  ssize_t Receive(absl::Time deadline);  // into the buffer
  // After SSL_read, SSL_write or SSL_accept: waits for what it wants. False when it has failed.
  bool WaitForTls(int result, absl::Time deadline) const;

  const int fd_;
  const std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_;  // null: plain
  bool greeted_ = false;                                  // the handshake is over
  size_t bytes_left_ = 0;
  absl::Time read_deadline_;
  absl::Time write_deadline_;
  absl::Duration write_timeout_;
  bool writing_ = false;
  char buffer_[kBufferBytes];
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace foreshock::http::internal
