// The client library and the daemon's access control both have a class Client; one program may use
// both.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "foreshock/client.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/admitted_client.h"

namespace foreshock::client_internal {
namespace {

TEST(TwoClients, AreTwoTypesInOneProgram) {
  const std::string name(100, 'n');
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Client> client,
                       Client::Create({.target = "127.0.0.1:1", .run = "run", .launch_id = "one"}));
  EXPECT_EQ(AdmittedName(name), name);
  EXPECT_EQ(client->stats().committed, 0u);
  client.reset();
  EXPECT_EQ(AdmittedName(name), name);
}

}  // namespace
}  // namespace foreshock::client_internal
