#include "daemon/notify/matcher.h"

#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

TEST(MatcherTest, MatchesLabels) {
  v1::Alert alert = FullAlert();  // layers 1 and 2, no rank
  alert.set_attempt(3);
  (*alert.mutable_labels())["team"] = "a=b";
  struct Case {
    const char* text;
    bool matches;
  };
  for (const Case& c : {
           Case{"run=exp-42", true},
           Case{"run=exp-4", false},
           Case{"run!=exp-4", true},
           Case{"run=~exp-.*", true},
           Case{"run=~xp", false},  // the whole value
           Case{"run!~\"exp-.*\"", false},
           Case{"severity = \"critical\"", true},
           Case{"fault=~low_.*|router_.*", true},
           Case{"layer=2", true},
           Case{"layer=3", false},
           Case{"layer!=2", false},
           Case{"layer!=3", true},
           Case{"rank=", true},
           Case{"rank=~.+", false},
           Case{"head!=0", true},
           Case{"attempt=3", true},
           Case{"team=a=b", true},
           Case{"team=\"\"", false},
           Case{"nobody=\"\"", true},
           Case{"id=a1", true},
           Case{"rule=Delta2EntropyFalls", true},
           Case{"indicator=~attn.*", true},
       }) {
    ASSERT_OK_AND_ASSIGN(const base::LabelMatcher matcher, base::LabelMatcher::Parse(c.text));
    EXPECT_EQ(MatchesAll({matcher}, alert), c.matches) << c.text;
    EXPECT_EQ(matcher.text(), c.text);
  }
  // Those that not every alert has.
  const v1::Alert without = alert;
  alert.set_unit_name("expert 3");
  alert.set_head(4);
  alert.set_rank(5);
  alert.clear_layers();
  for (const char* text : {"unit=expert 3", "head=4", "rank=5", "layer="}) {
    ASSERT_OK_AND_ASSIGN(const base::LabelMatcher matcher, base::LabelMatcher::Parse(text));
    EXPECT_TRUE(MatchesAll({matcher}, alert)) << text;
    EXPECT_FALSE(MatchesAll({matcher}, without)) << text;
  }
  for (const char* text : {"unit=", "head=", "rank=", "layer=1"}) {
    ASSERT_OK_AND_ASSIGN(const base::LabelMatcher matcher, base::LabelMatcher::Parse(text));
    EXPECT_FALSE(MatchesAll({matcher}, alert)) << text;
    EXPECT_TRUE(MatchesAll({matcher}, without)) << text;
  }
  alert = without;
  EXPECT_TRUE(MatchesAll({}, alert));
  EXPECT_FALSE(MatchesAll(
      {*base::LabelMatcher::Parse("layer=1"), *base::LabelMatcher::Parse("layer=5")}, alert));
}

}  // namespace
}  // namespace foreshock::notify
