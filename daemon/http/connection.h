// One accepted socket with what the HTTP library does not bound: the bytes of a request, the time
// of a whole request and of a whole response. Internal to http/.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace foreshock::http_internal {

// Thread-compatible; Cut may be called from another thread.
class Connection {
 public:
  using Steady = std::chrono::steady_clock;

  explicit Connection(int fd);  // takes ownership
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits for the first byte of a request. False when none came in time, the peer closed, or
  // `give_up` said so (asked every 50 ms).
  bool WaitForRequest(Steady::duration idle, const std::function<bool()>& give_up);

  // From now on at most `bytes` may be read, before `read` has passed; the response's clock starts
  // with its first byte.
  void BeginRequest(size_t bytes, Steady::duration read, Steady::duration write);
  // After the headers: exactly this much of a body may follow.
  void AllowBody(size_t bytes) { bytes_left_ = bytes; }

  // As read(2) and send(2), but -1 when a limit was hit. Never raise a signal.
  ssize_t Read(char* to, size_t size);
  ssize_t Write(const char* from, size_t size);

  // For a peer that is still sending what nobody will read: ends the response and swallows a
  // little, so that the response is not lost to a reset.
  void FinishUnread();

  // Ends reads and writes at once.
  void Cut() const;

  std::string peer_address() const;

 private:
  static constexpr size_t kBufferBytes = 4096;

  bool WaitFor(short events, Steady::time_point deadline) const;

  const int fd_;
  size_t bytes_left_ = 0;
  Steady::time_point read_deadline_;
  Steady::time_point write_deadline_;
  Steady::duration write_timeout_{};
  bool writing_ = false;
  char buffer_[kBufferBytes];
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace foreshock::http_internal
