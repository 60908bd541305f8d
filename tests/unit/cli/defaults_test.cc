#include "client/cli/defaults.h"

#include <gtest/gtest.h>

#include "daemon/config/config.h"

namespace foreshock::cli {
namespace {

TEST(DefaultsTest, ProgramLooksForTheDaemonWhereItListens) {
  EXPECT_EQ(kDefaultServer, config::kDefaultGrpcListen);
  EXPECT_EQ(kDefaultHttp, config::kDefaultHttpListen);
}

}  // namespace
}  // namespace foreshock::cli
