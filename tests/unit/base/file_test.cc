#include "daemon/base/file.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::base {
namespace {

using ::testing::HasSubstr;

TEST(ReadFileTest, ReadsAllBytesUpToTheLimit) {
  support::TempDir directory;
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes.push_back(static_cast<char>(i * 7));
  std::ofstream(directory.File("f"), std::ios::binary) << bytes;
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(directory.File("f"), bytes.size()));
  EXPECT_EQ(read, bytes);
  EXPECT_THAT(ReadFile(directory.File("f"), bytes.size() - 1),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("/f: has more than 99999 bytes")));
}

TEST(ReadFileTest, AnEmptyFileIsEmptyText) {
  support::TempDir directory;
  std::ofstream(directory.File("f"));
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(directory.File("f"), 0));
  EXPECT_EQ(read, "");
}

TEST(ReadFileTest, ErrorsNameTheFileAndTheReason) {
  support::TempDir directory;
  EXPECT_THAT(
      ReadFile(directory.File("none"), 10, "secret file "),
      support::StatusIs(absl::StatusCode::kNotFound,
                        "secret file " + directory.File("none") + ": No such file or directory"));
  EXPECT_THAT(
      ReadFile(directory.path(), 10),
      support::StatusIs(absl::StatusCode::kInvalidArgument, directory.path() + ": Is a directory"));
  EXPECT_THAT(ReadFile("/proc/self/mem", 10), support::StatusIs(absl::StatusCode::kPermissionDenied,
                                                                HasSubstr("/proc/self/mem: ")));
}

}  // namespace
}  // namespace foreshock::base
