#include "daemon/security/token.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::security {
namespace {

TEST(TokenTest, NewTokensAreLongAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK_AND_ASSIGN(const std::string token, NewToken());
    EXPECT_THAT(token, ::testing::MatchesRegex("fst_[A-Za-z0-9_-]+"));
    EXPECT_EQ(token.size(), 4u + 43u);
    EXPECT_TRUE(seen.insert(token).second);
  }
}

// The second is FIPS 180-2's example.
TEST(TokenTest, HashesAreSha256) {
  EXPECT_EQ(ToHex(HashToken("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(HashToken("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TokenTest, ComparesEveryByte) {
  const TokenHash hash = HashToken("abc");
  EXPECT_TRUE(SameHash(hash, HashToken("abc")));
  for (size_t i = 0; i < hash.size(); ++i) {
    TokenHash other = hash;
    other[i] ^= 1;
    EXPECT_FALSE(SameHash(hash, other)) << i;
  }
}

TEST(TokenTest, ReadsHashesOfEitherCaseAndNothingElse) {
  const TokenHash hash = HashToken("abc");
  std::string text = ToHex(hash);
  EXPECT_EQ(ParseTokenHash(text), hash);
  text[0] = 'B';
  EXPECT_EQ(ParseTokenHash(text), hash);
  EXPECT_EQ(ParseTokenHash(""), std::nullopt);
  EXPECT_EQ(ParseTokenHash(text + "0"), std::nullopt);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(ParseTokenHash(text.substr(0, length)), std::nullopt) << length;
  }
  text[5] = 'g';
  EXPECT_EQ(ParseTokenHash(text), std::nullopt);
}

TEST(TokenTest, FindsTheTokenInTheHeader) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bearer  abc "), "abc");
  for (const char* none : {"", "abc", "Basic abc", "Bearer", "Bearer ", "Bearerabc"}) {
    EXPECT_EQ(BearerToken(none), "") << none;
  }
}

}  // namespace
}  // namespace foreshock::security
