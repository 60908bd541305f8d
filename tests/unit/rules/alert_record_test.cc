// An alert that is over keeps what raised it, whatever rule or signature it is of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/rules/evaluator.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/random_run.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

// In which direction the rules of kRules that judge samples look; the others judge findings.
const std::map<std::string, char> kSides = {
    {"level", '+'},  {"drop", '-'},     {"anchored", '+'}, {"z", '|'},
    {"cusum", '|'},  {"shift", '|'},    {"slope", '+'},    {"ahead", '-'},
    {"spikes", '+'}, {"divided", '+'},  {"settled", '+'},  {"above_plateau", '+'},
    {"lost", '+'},   {"promised", '+'}, {"improves", '-'}, {"worse", '-'},
    {"drifts", '+'}, {"single", '+'}};
const std::set<std::string> kSignatures = {"both", "bad_rank", "other"};

// What was returned of one alert, and the worst that its rule has judged meanwhile.
struct Story {
  std::vector<v1::Alert> rows;
  std::optional<double> farthest;
  double value = 0;
  int64_t step = 0;

  void See(char side, int64_t at, const JudgedSeries& series) {
    double distance = series.value - series.baseline.value_or(0);
    if (side == '-') distance = -distance;
    if (side == '|') distance = std::abs(distance);
    if (farthest.has_value() && distance <= *farthest) return;
    farthest = distance;
    value = series.value;
    step = at;
  }
};

void ExpectPast(const v1::Alert& over) {
  EXPECT_THAT(over.description(),
              AllOf(StartsWith(absl::StrCat("It is over since step ", over.resolved_step(), ".")),
                    Not(HasSubstr("Roll back"))));
  EXPECT_THAT(over.summary(), AllOf(StartsWith(absl::StrCat("Steps ", over.firing_step(), " to ",
                                                            over.resolved_step(), ": ")),
                                    HasSubstr(absl::StrFormat("at worst %.6g", over.value())),
                                    Not(HasSubstr(" is "))));
}

void ExpectKept(const Story& story, const v1::Alert& over) {
  const v1::Alert& first = story.rows.front();
  const v1::Alert& last = story.rows.back();
  EXPECT_EQ(over.pending_step(), first.pending_step());
  EXPECT_EQ(over.firing_step(), first.firing_step());
  EXPECT_EQ(over.last_healthy_step(), first.last_healthy_step());
  EXPECT_EQ(over.severity(), last.severity());
  EXPECT_NE(over.indicator(), "");
  EXPECT_GE(over.worst_step(), first.pending_step());
  EXPECT_LT(over.worst_step(), over.resolved_step());
  EXPECT_THAT(over.layers(), IsSupersetOf(last.layers()));
  ExpectPast(over);
}

void ExpectRuleKept(const Story& story, const v1::Alert& over) {
  const v1::Alert& first = story.rows.front();
  EXPECT_EQ(over.indicator(), first.indicator());
  EXPECT_EQ(over.first_value(), first.value());
  if (!kSides.contains(over.rule())) return;
  ASSERT_TRUE(story.farthest.has_value());
  EXPECT_EQ(over.value(), story.value);
  EXPECT_EQ(over.worst_step(), story.step);
}

// What has moved stays, with the step at which it did, and speaks as it did.
void ExpectEvidenceKept(const Story& story, const v1::Alert& over) {
  int for_it = 0;
  for (const v1::Evidence& evidence : over.evidence()) {
    if (evidence.has_step() && evidence.supports()) ++for_it;
  }
  EXPECT_GT(for_it, 0);
  for (const v1::Alert& row : story.rows) {
    for (const v1::Evidence& before : row.evidence()) {
      if (!before.has_step()) continue;
      bool there = false;
      for (const v1::Evidence& evidence : over.evidence()) {
        there =
            there || (evidence.rule() == before.rule() && evidence.has_step() &&
                      evidence.step() == before.step() && evidence.supports() == before.supports());
      }
      EXPECT_TRUE(there) << before.ShortDebugString() << " is not in " << over.ShortDebugString();
    }
  }
}

TEST(AlertRecordTest, AnAlertThatIsOverKeepsWhatRaisedIt) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::map<std::string, int> over;
  for (int trial = 0; trial < 120; ++trial) {
    const std::unique_ptr<Evaluator> evaluator = NewEvaluator();
    evaluator->BeginAttempt({.number = 1});
    std::map<std::string, Story> stories;       // by id
    std::map<std::string, std::string> firing;  // rule to id
    for (const model::ClosedStep& step : RandomRun(&random, 300)) {
      for (const model::AlertRow& row : evaluator->Evaluate(step)) {
        const v1::Alert& alert = row.alert();
        Story& story = stories[alert.id()];
        if (alert.state() != v1::ALERT_STATE_RESOLVED) {
          story.rows.push_back(alert);
          firing[alert.rule()] = alert.id();
          continue;
        }
        SCOPED_TRACE(alert.ShortDebugString());
        ASSERT_FALSE(story.rows.empty());
        ExpectKept(story, alert);
        kSignatures.contains(alert.rule()) ? ExpectEvidenceKept(story, alert)
                                           : ExpectRuleKept(story, alert);
        ASSERT_FALSE(HasFailure());
        firing.erase(alert.rule());
        ++over[alert.rule()];
      }
      for (const auto& [rule, side] : kSides) {
        if (!firing.contains(rule)) continue;
        for (const JudgedSeries& series : evaluator->Judged(rule)) {
          if (series.firing) stories[firing[rule]].See(side, step.row.step, series);
        }
      }
    }
  }
  for (const std::string& signature : kSignatures) EXPECT_GT(over[signature], 10) << signature;
  for (const char* rule : {"level", "z", "quiet", "nonfinite", "lost", "single"}) {
    EXPECT_GT(over[rule], 10) << rule;
  }
}

// Also where a reload ends it.
TEST(AlertRecordTest, AnAlertWhoseRuleIsChangedKeepsWhatRaisedIt) {
  const auto rules = [](double above) {
    return OneRule({"indicator: train.x", absl::StrCat("threshold: {above: ", above, "}")});
  };
  ASSERT_OK_AND_ASSIGN(const auto before, ParseRules("r.yaml", rules(1)));
  ASSERT_OK_AND_ASSIGN(const auto after, ParseRules("r.yaml", rules(2)));
  Evaluator evaluator(before, "run", v1::ModelShape());
  evaluator.BeginAttempt({.number = 1});
  for (int64_t step = 1; step <= 3; ++step) {
    evaluator.Evaluate(MakeStep(step, {MakeSample("train.x", step == 2 ? 7 : 5)}));
  }
  const std::vector<model::AlertRow> rows = evaluator.ReplaceRules(after);
  ASSERT_EQ(rows.size(), 1u);
  const v1::Alert& over = rows[0].alert();
  EXPECT_EQ(over.state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(over.value(), 7);
  EXPECT_EQ(over.worst_step(), 2);
  EXPECT_EQ(over.first_value(), 5);
  EXPECT_EQ(over.resolved_step(), 3);
  EXPECT_EQ(over.summary(), "Steps 1 to 3: it ended because its rule was changed or removed");
  EXPECT_THAT(over.description(), StartsWith("It is over since step 3."));
}

}  // namespace
}  // namespace foreshock::rules
