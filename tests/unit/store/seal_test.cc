#include "daemon/store/seal.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

TEST(SealTest, IsZlibsCrcOfKeyAndRowInLittleEndian) {
  std::string row = "56789";
  Seal("1234", &row);
  // CRC-32 of "123456789" is cbf43926.
  EXPECT_EQ(absl::BytesToHexString(row),
            "3536373839"
            "2639f4cb");
}

TEST(SealTest, EveryChangedBitAndEveryCutIsFound) {
  const std::string key = "key";
  std::string row = "a row";
  Seal(key, &row);
  absl::string_view read = row;
  ASSERT_TRUE(Unseal(key, &read));
  EXPECT_EQ(read, "a row");
  for (size_t i = 0; i < 8 * row.size(); ++i) {
    std::string changed = row;
    changed[i / 8] = static_cast<char>(changed[i / 8] ^ (1 << (i % 8)));
    read = changed;
    EXPECT_FALSE(Unseal(key, &read)) << i;
  }
  for (size_t length = 0; length < row.size(); ++length) {
    read = absl::string_view(row).substr(0, length);
    EXPECT_FALSE(Unseal(key, &read)) << length;
  }
  read = row;
  EXPECT_FALSE(Unseal("kez", &read));
}

TEST(SealTest, AnEmptyRowHasASealToo) {
  std::string row;
  Seal("k", &row);
  EXPECT_EQ(row.size(), 4u);
  absl::string_view read = row;
  EXPECT_TRUE(Unseal("k", &read));
  EXPECT_TRUE(read.empty());
}

}  // namespace
}  // namespace foreshock::store
