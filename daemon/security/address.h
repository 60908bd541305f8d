// Which addresses only this machine reaches.
#pragma once

#include "absl/strings/string_view.h"

namespace foreshock::security {

// An address to listen on: host:port, [v6]:port, :port or unix:/path. Names other than localhost
// are not resolved and count as reachable from elsewhere.
bool IsLocalAddress(absl::string_view listen);

// A peer as gRPC names it ("ipv4:127.0.0.1:53412", "ipv6:%5B::1%5D:80", "unix:...") or a plain
// numeric host, as HTTP has it.
bool IsLocalPeer(absl::string_view peer);

// The host of such a peer, without its port: "127.0.0.1", "::1", "unix".
absl::string_view PeerHost(absl::string_view peer);

}  // namespace foreshock::security
