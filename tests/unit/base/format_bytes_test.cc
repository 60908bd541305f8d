#include "daemon/base/format_bytes.h"

#include <cstdint>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace foreshock::base {
namespace {

TEST(FormatBytesTest, HasThreeSignificantDigitsAndTheUnitThatFits) {
  constexpr uint64_t kMiB = 1u << 20;
  const std::pair<uint64_t, std::string> cases[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1536, "1.5 KiB"},
      {64 * kMiB, "64 MiB"},
      {999 * kMiB + kMiB / 4, "999 MiB"},
      {999 * kMiB + 3 * kMiB / 4, "1000 MiB"},
      {1023 * kMiB, "1023 MiB"},
      {1024 * kMiB, "1 GiB"},
      {13'803 * kMiB, "13.5 GiB"},
      {uint64_t{1} << 40, "1 TiB"},
      {~uint64_t{0}, "16777216 TiB"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(FormatBytes(bytes), text);
}

}  // namespace
}  // namespace foreshock::base
