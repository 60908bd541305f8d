#include "daemon/http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::http::internal {
namespace {

struct HostPort {
  std::string host;  // empty: all addresses
  std::string port;
};

absl::StatusOr<HostPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort split;
  if (colon != std::string::npos) {
    split.host = address.substr(0, colon);
    split.port = address.substr(colon + 1);
  }
  const bool bracketed =
      split.host.size() >= 2 && split.host.front() == '[' && split.host.back() == ']';
  if (bracketed) split.host = split.host.substr(1, split.host.size() - 2);
  int port = -1;
  if (!absl::SimpleAtoi(split.port, &port) || port < 0 || port > 65535 ||
      (!bracketed && split.host.find(':') != std::string::npos)) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen address '", address,
                     "': expected host:port, [IPv6]:port or :port with a port from 0 to 65535"));
  }
  return split;
}

absl::Status BindError(const std::string& address, int error) {
  const std::string message =
      absl::StrCat("cannot listen on ", address, ": ", std::strerror(error));
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(
          absl::StrCat(message, " (another process, perhaps another foreshockd, listens there)"));
    case EACCES:
      return absl::PermissionDeniedError(message);
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(message);
    default:
      return absl::UnavailableError(message);
  }
}

std::string BoundAddress(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  auto* generic = reinterpret_cast<sockaddr*>(&bound);
  if (getsockname(fd, generic, &size) != 0 ||
      getnameinfo(generic, size, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  return bound.ss_family == AF_INET6 ? absl::StrCat("[", host, "]:", port)
                                     : absl::StrCat(host, ":", port);
}

}  // namespace

absl::Status CheckAddress(const std::string& address) { return Split(address).status(); }

absl::StatusOr<Listener> Listen(const std::string& address, int backlog) {
  FORESHOCK_ASSIGN_OR_RETURN(const HostPort split, Split(address));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(split.host.empty() ? nullptr : split.host.c_str(),
                                split.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen address '", address, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  absl::Status last = absl::UnavailableError(absl::StrCat("listen on '", address, "': no address"));
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0) {
      last = BindError(address, errno);
      continue;
    }
    // Not SO_REUSEPORT: with it a second daemon would silently take half of the connections.
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, backlog) == 0) {
      return Listener{fd, BoundAddress(fd)};
    }
    last = BindError(address, errno);
    close(fd);
  }
  return last;
}

}  // namespace foreshock::http::internal
