#include "daemon/security/address.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace foreshock::security {
namespace {

bool IsLocalHost(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.") ||
         absl::StartsWith(host, "::ffff:127.");
}

}  // namespace

bool IsLocalAddress(absl::string_view listen) {
  if (absl::StartsWith(listen, "unix:")) return true;
  absl::string_view host = listen.substr(0, listen.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return IsLocalHost(host);
}

absl::string_view PeerHost(absl::string_view peer) {
  if (absl::StartsWith(peer, "unix:")) return "unix";
  if (absl::ConsumePrefix(&peer, "ipv4:")) return peer.substr(0, peer.rfind(':'));
  if (!absl::ConsumePrefix(&peer, "ipv6:")) return peer;
  peer = peer.substr(0, peer.rfind(':'));
  // gRPC escapes the brackets, and a zone ("%eth0") twice.
  if (!absl::ConsumePrefix(&peer, "[")) absl::ConsumePrefix(&peer, "%5B");
  if (!absl::ConsumeSuffix(&peer, "]")) absl::ConsumeSuffix(&peer, "%5D");
  return peer;
}

bool IsLocalPeer(absl::string_view peer) {
  const absl::string_view host = PeerHost(peer);
  return host == "unix" || IsLocalHost(host);
}

}  // namespace foreshock::security
