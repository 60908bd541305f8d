#include "daemon/model/alert_labels.h"

#include "tests/support/status_matchers.h"

namespace foreshock::model {
namespace {

TEST(MatcherTest, MatchesLabels) {
  v1::Alert alert;
  alert.set_id("a1");
  alert.set_run("exp-42");
  alert.set_rule("Delta2EntropyFalls");
  alert.set_severity("critical");
  alert.set_fault("low_precision_attention");
  alert.set_indicator("attn.delta2.entropy_ratio_l1");
  alert.set_attempt(3);
  alert.add_layers(1);
  alert.add_layers(2);
  (*alert.mutable_run_labels())["project"] = "moe";
  (*alert.mutable_run_labels())["team"] = "the rule's wins";
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
           Case{"project=moe", true},
           Case{"project=dense", false},
           Case{"nobody=\"\"", true},
           Case{"id=a1", true},
           Case{"rule=Delta2EntropyFalls", true},
           Case{"indicator=~attn.*", true},
       }) {
    ASSERT_OK_AND_ASSIGN(const base::LabelMatcher matcher, base::LabelMatcher::Parse(c.text));
    EXPECT_EQ(MatchesAll({matcher}, alert), c.matches) << c.text;
    EXPECT_EQ(matcher.text(), c.text);
  }
  EXPECT_TRUE(MatchesAll({}, alert));
  EXPECT_FALSE(MatchesAll(
      {*base::LabelMatcher::Parse("layer=1"), *base::LabelMatcher::Parse("layer=5")}, alert));
}

TEST(CheckAlertLabelsTest, ALabelThatNoAlertHasIsAMistake) {
  const auto check = [](const char* text) {
    return CheckAlertLabels({*base::LabelMatcher::Parse(text)}, {"team", "project"});
  };
  EXPECT_OK(check("run=x"));
  EXPECT_OK(check("team=blue"));
  EXPECT_OK(CheckAlertLabels({}, {}));
  EXPECT_THAT(check("rum=x"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("matcher 'rum=x': no alert has the label 'rum'; did "
                                            "you mean 'run'?; labels are attempt, fault, head")));
  EXPECT_THAT(check("owner=x"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("has the label 'owner'; labels are")));
}

}  // namespace
}  // namespace foreshock::model
