#include "daemon/base/label_matcher.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::base {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

bool Matches(absl::string_view matcher, absl::string_view value) {
  const auto parsed = LabelMatcher::Parse(matcher);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() && parsed->Matches(value);
}

TEST(LabelMatcherTest, HasFourOperators) {
  EXPECT_TRUE(Matches("layer=1", "1"));
  EXPECT_FALSE(Matches("layer=1", "11"));
  EXPECT_TRUE(Matches("layer!=1", "2"));
  EXPECT_FALSE(Matches("layer!=1", "1"));
  EXPECT_TRUE(Matches("indicator=~attn\\..*", "attn.delta2.norm"));
  EXPECT_FALSE(Matches("indicator=~attn", "attn.delta2.norm"));  // the whole value
  EXPECT_TRUE(Matches("indicator!~attn\\..*", "train.loss"));
  EXPECT_FALSE(Matches("indicator!~attn\\..*", "attn.delta2.norm"));
}

TEST(LabelMatcherTest, ReadsQuotesAndSpaces) {
  EXPECT_TRUE(Matches(" team = \"blue\" ", "blue"));
  EXPECT_TRUE(Matches(R"(note="say \"a\" \\ b")", R"(say "a" \ b)"));
  EXPECT_TRUE(Matches(R"(note=~"a\.b")", "a.b"));  // other escapes are the pattern's
  EXPECT_FALSE(Matches(R"(note=~"a\.b")", "axb"));
  EXPECT_TRUE(Matches("team=", ""));
  EXPECT_TRUE(Matches("team=\"\"", ""));
  EXPECT_FALSE(Matches("team!=\"\"", ""));
  EXPECT_TRUE(Matches("note=a=b", "a=b"));
}

TEST(LabelMatcherTest, OfSeveralValuesOneMustFitAndNoneOthers) {
  const auto matches = [](absl::string_view text, std::vector<std::string> values) {
    return LabelMatcher::Parse(text)->MatchesOneOf(values);
  };
  EXPECT_TRUE(matches("layer=2", {"1", "2"}));
  EXPECT_FALSE(matches("layer=3", {"1", "2"}));
  EXPECT_FALSE(matches("layer!=2", {"1", "2"}));
  EXPECT_TRUE(matches("layer!=3", {"1", "2"}));
  EXPECT_TRUE(matches("layer=~2|3", {"1", "2"}));
  EXPECT_FALSE(matches("layer=1", {}));
}

TEST(LabelMatcherTest, NamesTheLabel) {
  ASSERT_OK_AND_ASSIGN(const LabelMatcher matcher, LabelMatcher::Parse("a.b-c_1=x"));
  EXPECT_EQ(matcher.label(), "a.b-c_1");
  EXPECT_EQ(matcher.text(), "a.b-c_1=x");
}

TEST(LabelMatcherTest, SaysWhatIsWrong) {
  EXPECT_THAT(LabelMatcher::Parse("").status().message(),
              HasSubstr("matcher '': it begins with no label; allowed is LABEL=VALUE"));
  EXPECT_THAT(LabelMatcher::Parse("=x").status().message(), HasSubstr("begins with no label"));
  EXPECT_THAT(LabelMatcher::Parse("layer").status().message(),
              HasSubstr("no operator after 'layer'"));
  EXPECT_THAT(LabelMatcher::Parse("layer>1").status().message(), HasSubstr("no operator"));
  EXPECT_THAT(LabelMatcher::Parse("a=\"b").status().message(), HasSubstr("quotes do not enclose"));
  EXPECT_THAT(LabelMatcher::Parse("a=\"b\"c").status().message(),
              HasSubstr("quotes do not enclose"));
  EXPECT_THAT(LabelMatcher::Parse("a=~(").status().message(), HasSubstr("missing )"));
  EXPECT_THAT(LabelMatcher::Parse("a=" + std::string(2000, 'x')).status().message(),
              HasSubstr("longer than 1024 bytes"));
  EXPECT_THAT(LabelMatcher::Parse("a=~((x{100}){100}){100}").status(),
              support::StatusIs(absl::StatusCode::kInvalidArgument, _));
}

}  // namespace
}  // namespace foreshock::base
