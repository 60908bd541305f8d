#include "daemon/rpc/listen_probe.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace foreshock::rpc {
namespace {

struct HostPort {
  std::string host;
  std::string port;
};

// Splits at the last colon and takes the brackets off.
HostPort Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {address, ""};
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {host, address.substr(colon + 1)};
}

// Tries what gRPC tried, to see what the system answers.
std::string Reason(const std::string& address) {
  const HostPort at = Split(address);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found); error != 0) {
    return gai_strerror(error);
  }
  std::string reason = "refused by gRPC";
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int fd = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, each->ai_addr, each->ai_addrlen) != 0 || listen(fd, 1) != 0) {
      reason = std::strerror(errno);
      if (errno == EADDRINUSE) {
        absl::StrAppend(&reason, " (another process, perhaps another foreshockd, listens there)");
      }
    }
    close(fd);
  }
  freeaddrinfo(found);
  return reason;
}

}  // namespace

absl::Status CheckListenAddress(const std::string& address) {
  if (absl::StartsWith(address, "unix:") && address.size() > 5) return absl::OkStatus();
  const HostPort at = Split(address);
  uint32_t port = 0;
  if (at.host.empty() || !absl::SimpleAtoi(at.port, &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on '", address,
                     "': an address is host:port, [v6]:port or unix:/path, with port 0..65535"));
  }
  return absl::OkStatus();
}

absl::Status ListenError(const std::string& address) {
  const bool path = absl::StartsWith(address, "unix:");
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ",
                                             path ? "the socket cannot be made" : Reason(address)));
}

}  // namespace foreshock::rpc
