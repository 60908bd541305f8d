#include "daemon/security/address.h"

#include "gtest/gtest.h"

namespace foreshock::security {
namespace {

TEST(AddressTest, OnlyLoopbackAndPathsAreLocal) {
  for (const char* local : {"127.0.0.1:7317", "127.9.9.9:0", "localhost:1", "[::1]:7317",
                            "unix:/run/foreshock.sock", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(IsLocalAddress(local)) << local;
  }
  for (const char* open : {"0.0.0.0:7317", "[::]:7317", ":7317", "10.0.0.1:1", "node-7:7317",
                           "localhost.example.org:1", "[fe80::1%eth0]:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(IsLocalAddress(open)) << open;
  }
}

TEST(AddressTest, ReadsPeersAsGrpcAndHttpNameThem) {
  const struct {
    const char* peer;
    const char* host;
    bool local;
  } kCases[] = {{"ipv4:127.0.0.1:53412", "127.0.0.1", true},
                {"ipv4:10.1.2.3:53412", "10.1.2.3", false},
                {"ipv6:%5B::1%5D:53412", "::1", true},
                {"ipv6:[::1]:53412", "::1", true},
                {"ipv6:%5Bfe80::1%5D:1", "fe80::1", false},
                {"unix:", "unix", true},
                {"unix:/run/x", "unix", true},
                {"127.0.0.1", "127.0.0.1", true},
                {"::1", "::1", true},
                {"::ffff:127.0.0.1", "::ffff:127.0.0.1", true},
                {"192.168.0.9", "192.168.0.9", false},
                {"", "", false}};
  for (const auto& test : kCases) {
    EXPECT_EQ(PeerHost(test.peer), test.host) << test.peer;
    EXPECT_EQ(IsLocalPeer(test.peer), test.local) << test.peer;
  }
}

}  // namespace
}  // namespace foreshock::security
