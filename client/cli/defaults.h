// Where the daemon listens unless told otherwise. The daemon's own defaults are in daemon/config;
// tests/unit/cli holds the two equal.
#pragma once

namespace foreshock::cli {

inline constexpr char kDefaultServer[] = "127.0.0.1:7317";  // gRPC
inline constexpr char kDefaultHttp[] = "127.0.0.1:7318";    // /metrics, /-/ready, /api/v1

}  // namespace foreshock::cli
