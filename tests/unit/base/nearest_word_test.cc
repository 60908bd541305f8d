#include "daemon/base/nearest_word.h"

#include <vector>

#include "tests/support/status_matchers.h"

namespace foreshock::base {
namespace {

TEST(NearestWordTest, IsOnlyGivenForTypos) {
  const std::vector<std::string> known = {"for", "keep_firing_for", "alert"};
  EXPECT_EQ(NearestWord("fro", known), "for");
  EXPECT_EQ(NearestWord("keep_firing", known), "");
  EXPECT_EQ(NearestWord("alerts", known), "alert");
  EXPECT_EQ(NearestWord("", known), "");
  EXPECT_EQ(NearestWord("x", {}), "");
  EXPECT_EQ(DidYouMean("fro", known), "; did you mean 'for'?");
  EXPECT_EQ(DidYouMean("keep_firing", known), "");
}

}  // namespace
}  // namespace foreshock::base
