// A restart changes nothing: priming with what is stored and restoring the alerts that fire goes on
// as if there had been none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_replace.h"
#include "daemon/base/archive.h"
#include "daemon/base/stable_hash.h"
#include "daemon/rules/evaluator.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/random_run.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

std::vector<std::string> Rows(const std::vector<model::AlertRow>& rows) {
  std::vector<std::string> text;
  for (const model::AlertRow& row : rows) text.push_back(row.alert().ShortDebugString());
  return text;
}

// The rows of alerts that go on.
class StoredAlerts {
 public:
  void Put(const std::vector<model::AlertRow>& rows) {
    for (const model::AlertRow& row : rows) stored_[row.alert().id()] = row;
  }
  int RestoreTo(Evaluator* evaluator) const {
    int restored = 0;
    for (const auto& [id, row] : stored_) {
      if (row.alert().state() == v1::ALERT_STATE_RESOLVED) continue;
      EXPECT_OK(evaluator->Restore(row));
      ++restored;
    }
    return restored;
  }
  bool Firing(const std::string& rule) const {
    return std::any_of(stored_.begin(), stored_.end(), [&rule](const auto& entry) {
      const v1::Alert& alert = entry.second.alert();
      return alert.rule() == rule && alert.state() != v1::ALERT_STATE_RESOLVED;
    });
  }

 private:
  std::map<std::string, model::AlertRow> stored_;
};

TEST(RestartTest, GoesOnAsIfThereHadBeenNone) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int firing_over_a_cut = 0;
  int judged_rows = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<model::ClosedStep> run = RandomRun(&random, 300);
    const size_t cut = std::uniform_int_distribution<size_t>(1, run.size() - 1)(random);
    SCOPED_TRACE("trial " + std::to_string(trial) + " cut " + std::to_string(cut));

    std::unique_ptr<Evaluator> straight = NewEvaluator();
    straight->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    StoredAlerts stored;
    for (size_t i = 0; i < cut; ++i) stored.Put(straight->Evaluate(run[i]));

    std::unique_ptr<Evaluator> restarted = NewEvaluator();
    restarted->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    for (size_t i = 0; i < cut; ++i) restarted->Prime(AsStored(run[i]));
    firing_over_a_cut += stored.RestoreTo(restarted.get());
    for (size_t i = cut; i < run.size(); ++i) {
      const std::vector<std::string> expected = Rows(straight->Evaluate(run[i]));
      ASSERT_EQ(Rows(restarted->Evaluate(run[i])), expected) << "step " << run[i].row.step;
      judged_rows += static_cast<int>(expected.size());
    }
  }
  EXPECT_GT(firing_over_a_cut, 20);
  EXPECT_GT(judged_rows, 500);
}

// What is remembered stands for the steps before it, of this attempt and of those before.
TEST(RestartTest, WithItsMemoryItNeedsOnlyTheStepsAfterIt) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&random](size_t low, size_t high) {
    return std::uniform_int_distribution<size_t>(low, high)(random);
  };
  int firing_over_a_cut = 0;
  int judged_rows = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const bool resumed = trial % 2 == 1;
    const std::vector<model::ClosedStep> parent =
        resumed ? RandomRun(&random, 200) : std::vector<model::ClosedStep>();
    const int64_t resume = resumed ? parent[pick(50, 199)].row.step : 0;
    std::vector<model::ClosedStep> run = RandomRun(&random, 250, resume);
    const size_t cut = pick(1, run.size() - 1);
    const size_t remembered = pick(1, cut);  // steps
    SCOPED_TRACE("trial " + std::to_string(trial) + " cut " + std::to_string(cut) + " remembered " +
                 std::to_string(remembered));

    const std::unique_ptr<Evaluator> straight = NewEvaluator();
    StoredAlerts stored;
    straight->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    for (const model::ClosedStep& step : parent) stored.Put(straight->Evaluate(step));
    if (resumed) straight->BeginAttempt({.number = 2, .resume_step = resume});
    std::string memory;
    for (size_t i = 0; i < cut; ++i) {
      if (i == remembered) memory = straight->Remember();
      run[i].row.attempt = resumed ? 2 : 1;
      stored.Put(straight->Evaluate(run[i]));
    }
    if (remembered == cut) memory = straight->Remember();

    const std::unique_ptr<Evaluator> restarted = NewEvaluator();
    ASSERT_TRUE(restarted->Recall(memory));
    for (size_t i = remembered; i < cut; ++i) restarted->Prime(AsStored(run[i]));
    firing_over_a_cut += stored.RestoreTo(restarted.get());
    for (size_t i = cut; i < run.size(); ++i) {
      const std::vector<std::string> expected = Rows(straight->Evaluate(run[i]));
      ASSERT_EQ(Rows(restarted->Evaluate(run[i])), expected) << "step " << run[i].row.step;
      judged_rows += static_cast<int>(expected.size());
    }
    EXPECT_TRUE(restarted->Remember() == straight->Remember());
  }
  EXPECT_GT(firing_over_a_cut, 20);
  EXPECT_GT(judged_rows, 500);
}

TEST(RestartTest, AnAttemptThatBeginsAfterTheMemoryIsPrimed) {
  std::mt19937 random(7);
  const std::vector<model::ClosedStep> parent = RandomRun(&random, 200);
  const std::vector<model::ClosedStep> run = RandomRun(&random, 200, parent[120].row.step);
  const std::unique_ptr<Evaluator> straight = NewEvaluator();
  const std::unique_ptr<Evaluator> restarted = NewEvaluator();
  StoredAlerts stored;
  straight->BeginAttempt({.number = 1, .resume_step = std::nullopt});
  for (const model::ClosedStep& step : parent) stored.Put(straight->Evaluate(step));
  ASSERT_TRUE(restarted->Recall(straight->Remember()));
  for (Evaluator* evaluator : {straight.get(), restarted.get()}) {
    evaluator->BeginAttempt({.number = 2, .resume_step = parent[120].row.step});
  }
  for (size_t i = 0; i < 100; ++i) {
    stored.Put(straight->Evaluate(run[i]));
    restarted->Prime(AsStored(run[i]));
  }
  EXPECT_GT(stored.RestoreTo(restarted.get()), 0);
  for (size_t i = 100; i < run.size(); ++i) {
    ASSERT_EQ(Rows(restarted->Evaluate(run[i])), Rows(straight->Evaluate(run[i]))) << i;
  }
}

// Of a run that is written down, so that every machine remembers the same.
std::string KnownMemory() {
  const std::unique_ptr<Evaluator> evaluator = NewEvaluator();
  evaluator->BeginAttempt({.number = 1, .resume_step = std::nullopt});
  for (int64_t step = 1; step <= 60; ++step) {
    model::ClosedStep closed =
        MakeStep(step, {MakeSample("train.x", step < 40 ? 1 : 2), MakeSample("train.lr", 0.5)});
    for (int64_t head = 0; head < 2; ++head) {
      closed.samples.push_back(
          MakeSample("attn.delta2.entropy_ratio_l1", 0.5, 0, model::Unit::kHead, head));
    }
    evaluator->Evaluate(closed);
  }
  return evaluator->Remember();
}

// Other bytes here mean another form: raise kMemoryVersion (daemon/rules/evaluator_memory.cc), so
// that what older programs remembered is not misread.
TEST(RestartTest, TheFormOfTheMemoryHasAVersion) {
  const std::string memory = KnownMemory();
  uint32_t version = 0;
  base::Archive(memory).Take(&version);
  EXPECT_EQ(version, 8u);
  EXPECT_EQ(memory.size(), 31419u);
  EXPECT_EQ(base::StableHash(memory), 11704133710747198008u);
}

TEST(RestartTest, WhatIsNoMemoryOfTheseRulesIsRefused) {
  const std::string memory = KnownMemory();
  std::string newer = memory;
  ++newer[0];
  std::vector<std::string> wrong = {"", newer, memory + "x"};
  for (size_t bytes = 1; bytes < memory.size(); ++bytes) wrong.push_back(memory.substr(0, bytes));
  const std::unique_ptr<Evaluator> evaluator = NewEvaluator();
  const std::string nothing = evaluator->Remember();
  for (const std::string& bytes : wrong) {
    ASSERT_FALSE(evaluator->Recall(bytes)) << bytes.size();
    ASSERT_TRUE(evaluator->Remember() == nothing);
  }
  ASSERT_OK_AND_ASSIGN(
      auto rules, ParseRules("r.yaml", OneRule({"indicator: train.x", "threshold: {above: 1}"})));
  EXPECT_FALSE(Evaluator(rules, "run", v1::ModelShape()).Recall(memory));
  EXPECT_TRUE(evaluator->Recall(memory));
  EXPECT_TRUE(evaluator->Remember() == memory);
}

// `kRules` without the signature that names the rules which change ...
std::string SomeRules() {
  const std::string text = kRules;
  return text.substr(0, text.find("  - signature: other"));
}

// ... and with two rules and a signature changed.
std::string OtherRules() {
  return absl::StrReplaceAll(SomeRules(), {{"robust_z: {outside: 5,", "robust_z: {outside: 4,"},
                                           {"divide_by: train.lr", "divide_by: train.x"},
                                           {"for: 2 samples", "for: 3 samples"}});
}

std::unique_ptr<Evaluator> EvaluatorOf(const std::shared_ptr<const RuleSet>& rules) {
  return std::make_unique<Evaluator>(rules, "run", v1::ModelShape());
}

const std::set<std::string> kUnchanged = {
    "level",    "drop",  "anchored", "cusum",    "shift",         "slope",     "ahead",
    "spikes",   "quiet", "settled",  "differs",  "above_plateau", "nonfinite", "nonfinite_gradient",
    "bad_rank", "lost",  "promised", "improves", "worse",         "drifts",    "single",
    "repeats"};

// Of rules and signatures that are the same.
std::vector<std::string> RowsOfUnchanged(std::vector<model::AlertRow> rows) {
  std::erase_if(rows, [](const auto& row) { return !kUnchanged.contains(row.alert().rule()); });
  return Rows(rows);
}

// What a rule made of its series at the newest step.
std::vector<std::string> Judged(const Evaluator& evaluator, const std::string& rule) {
  std::vector<std::string> judged;
  for (const JudgedSeries& series : evaluator.Judged(rule)) {
    judged.push_back(absl::StrCat(series.layer, " ", series.unit_id, " ", series.value, " ",
                                  series.baseline.value_or(-1), " ", series.breaching));
  }
  return judged;
}

// The daemon was down while some rules changed: those judge as if they had always been there, and
// the others go on from what they remembered.
TEST(RestartTest, RulesThatAreTheSameGoOnAndOthersArePrimedWithTheWholeRun) {
  ASSERT_OK_AND_ASSIGN(const auto some, ParseRules("restart.yaml", SomeRules()));
  ASSERT_OK_AND_ASSIGN(const auto other, ParseRules("restart.yaml", OtherRules()));
  std::mt19937 random(11);
  int rows = 0;
  int samples = 0;
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const std::vector<model::ClosedStep> run = RandomRun(&random, 300);
    const std::unique_ptr<Evaluator> before = EvaluatorOf(some);
    const std::unique_ptr<Evaluator> always = EvaluatorOf(other);
    before->BeginAttempt({.number = 1});
    always->BeginAttempt({.number = 1});
    StoredAlerts stored;
    StoredAlerts stored_always;
    std::string memory;
    for (size_t i = 0; i < 200; ++i) {
      if (i == 150) memory = before->Remember();
      stored.Put(before->Evaluate(run[i]));
      stored_always.Put(always->Evaluate(run[i]));
    }

    const std::unique_ptr<Evaluator> restarted = EvaluatorOf(other);
    ASSERT_TRUE(restarted->Recall(memory));
    ASSERT_TRUE(restarted->LacksRules());
    const std::unique_ptr<Evaluator> whole = EvaluatorOf(other);
    whole->BeginAttempt({.number = 1});
    for (size_t i = 0; i < 200; ++i) {
      whole->Prime(AsStored(run[i]));
      if (i >= 150) restarted->Prime(AsStored(run[i]));
    }
    restarted->TakeLackedRules(whole.get());
    EXPECT_FALSE(restarted->LacksRules());
    stored.RestoreTo(restarted.get());
    for (size_t i = 200; i < run.size(); ++i) {
      const std::vector<std::string> expected = RowsOfUnchanged(before->Evaluate(run[i]));
      ASSERT_EQ(RowsOfUnchanged(restarted->Evaluate(run[i])), expected) << run[i].row.step;
      rows += static_cast<int>(expected.size());
      always->Evaluate(run[i]);
      for (const char* rule : {"z", "divided"}) {
        // An alert of the rule before goes on as one of the changed rule, with its baseline. One
        // that the changed rule would have had begins with the next breach.
        if (stored.Firing(rule) || stored_always.Firing(rule)) continue;
        ASSERT_EQ(Judged(*restarted, rule), Judged(*always, rule)) << run[i].row.step;
        samples += static_cast<int>(Judged(*always, rule).size());
      }
    }
  }
  EXPECT_GT(rows, 100);
  EXPECT_GT(samples, 500);
}

// A reload, some steps, and a kill: with the memory from before the reload and the note of it, the
// restart is the daemon that lived on, byte by byte.
TEST(RestartTest, ARuleThatWasReloadedSeesNoStepBeforeTheReload) {
  ASSERT_OK_AND_ASSIGN(const auto some, ParseRules("restart.yaml", SomeRules()));
  ASSERT_OK_AND_ASSIGN(const auto other, ParseRules("restart.yaml", OtherRules()));
  std::mt19937 random(12);
  for (int trial = 0; trial < 30; ++trial) {
    const size_t after_reload = trial % 3 == 0 ? 0 : static_cast<size_t>(7 * trial);
    SCOPED_TRACE("trial " + std::to_string(trial));
    const bool attempts = trial % 2 == 1;  // the memory is of an attempt before
    const std::vector<model::ClosedStep> parent = RandomRun(&random, 120);
    const std::vector<model::ClosedStep> run = RandomRun(&random, 400, parent[100].row.step);
    const std::unique_ptr<Evaluator> straight = EvaluatorOf(some);
    StoredAlerts stored;
    straight->BeginAttempt({.number = 1});
    for (const model::ClosedStep& step : parent) stored.Put(straight->Evaluate(step));
    std::string memory = straight->Remember();
    straight->BeginAttempt({.number = 2, .resume_step = parent[100].row.step});
    const size_t remembered = attempts ? 0 : 60;
    for (size_t i = 0; i < 100; ++i) {
      if (i == remembered && !attempts) memory = straight->Remember();
      stored.Put(straight->Evaluate(run[i]));
    }
    stored.Put(straight->ReplaceRules(other));
    const std::string replaced = straight->Replaced();
    EXPECT_NE(replaced, "");
    for (size_t i = 100; i < 100 + after_reload; ++i) stored.Put(straight->Evaluate(run[i]));

    const std::unique_ptr<Evaluator> restarted = EvaluatorOf(other);
    restarted->RecallReplaced(replaced);
    ASSERT_TRUE(restarted->Recall(memory));
    EXPECT_FALSE(restarted->LacksRules());
    if (attempts) restarted->BeginAttempt({.number = 2, .resume_step = parent[100].row.step});
    for (size_t i = remembered; i < 100 + after_reload; ++i) restarted->Prime(AsStored(run[i]));
    stored.RestoreTo(restarted.get());
    for (size_t i = 100 + after_reload; i < run.size(); ++i) {
      ASSERT_EQ(Rows(restarted->Evaluate(run[i])), Rows(straight->Evaluate(run[i]))) << i;
    }
    EXPECT_TRUE(restarted->Remember() == straight->Remember());
    EXPECT_EQ(restarted->Replaced(), replaced);
    straight->ForgetReplaced();
    EXPECT_EQ(straight->Replaced(), "");
  }
}

TEST(RestartTest, WithoutHistoryTheStoredAlertsStillDoNotFireAgain) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 40; ++trial) {
    const std::vector<model::ClosedStep> run = RandomRun(&random, 200);
    std::unique_ptr<Evaluator> first = NewEvaluator();
    first->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    std::map<std::string, model::AlertRow> stored;
    for (int i = 0; i < 100; ++i) {
      for (const model::AlertRow& row : first->Evaluate(run[i])) stored[row.alert().id()] = row;
    }
    std::unique_ptr<Evaluator> second = NewEvaluator();
    second->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    std::map<std::string, std::string> firing;  // rule by id
    for (const auto& [id, row] : stored) {
      if (row.alert().state() == v1::ALERT_STATE_RESOLVED) continue;
      ASSERT_OK(second->Restore(row));
      firing[row.alert().rule()] = id;
    }
    for (int i = 100; i < 200; ++i) {
      for (const model::AlertRow& row : second->Evaluate(run[i])) {
        const auto before = firing.find(row.alert().rule());
        if (before == firing.end()) continue;
        // The first word on a restored alert is about that alert, not about a new one.
        ASSERT_EQ(row.alert().id(), before->second) << row.alert().ShortDebugString();
        if (row.alert().state() == v1::ALERT_STATE_RESOLVED) firing.erase(before);
      }
    }
  }
}

TEST(RestartTest, AResumeIsStillComparedWithTheAttemptBeforeIt) {
  const std::string text = OneRule(
      {"indicator: attn.qk.norm", "aggregate: mean", "continuity: {outside: 0.05, min_z: 0}"});
  const auto at = [](int64_t step, uint32_t attempt, double norm) {
    model::ClosedStep closed =
        MakeStep(step, {MakeSample("attn.qk.norm", norm, 1, model::Unit::kHead, 0),
                        MakeSample("attn.qk.norm", norm, 1, model::Unit::kHead, 1)});
    closed.row.attempt = attempt;
    return closed;
  };
  ASSERT_OK_AND_ASSIGN(auto rules, ParseRules("r.yaml", text));
  for (const bool overtaken : {true, false}) {
    Evaluator evaluator(rules, "run", v1::ModelShape());
    evaluator.BeginAttempt({.number = 1, .resume_step = std::nullopt});
    for (int64_t step = 1; step <= 20; ++step) evaluator.Prime(at(step, 1, 3));
    evaluator.BeginAttempt({.number = 2, .resume_step = 21});
    for (int64_t step = 21; step <= 24; ++step) evaluator.Prime(at(step, 2, 3));
    for (int64_t step = 25; step <= 40 && overtaken; ++step) {
      evaluator.PrimeOvertaken(at(step, 1, 3));
    }
    EXPECT_TRUE(evaluator.Evaluate(at(25, 2, 3.1)).empty());
    const std::vector<model::AlertRow> rows = evaluator.Evaluate(at(26, 2, 3.2));
    ASSERT_EQ(rows.size(), overtaken ? 1u : 0u);
    if (!overtaken) continue;
    EXPECT_EQ(rows[0].alert().baseline(), 3);
    EXPECT_EQ(rows[0].alert().firing_step(), 26);
  }
}

TEST(RestartTest, AnAlertWhoseRuleIsGoneIsResolved) {
  std::unique_ptr<Evaluator> evaluator = NewEvaluator();
  evaluator->BeginAttempt({.number = 1, .resume_step = std::nullopt});
  model::AlertRow row;
  row.mutable_alert()->set_id("abc");
  row.mutable_alert()->set_rule("removed");
  row.mutable_alert()->set_state(v1::ALERT_STATE_FIRING);
  ASSERT_OK(evaluator->Restore(row));
  const std::vector<model::AlertRow> rows = evaluator->Evaluate(MakeStep(7));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].alert().id(), "abc");
  EXPECT_EQ(rows[0].alert().state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(rows[0].alert().resolved_step(), 7);
  EXPECT_TRUE(evaluator->Evaluate(MakeStep(8)).empty());
}

TEST(RestartTest, AnUnreadableStateIsAnErrorThatNamesTheAlert) {
  std::unique_ptr<Evaluator> evaluator = NewEvaluator();
  model::AlertRow row;
  row.mutable_alert()->set_id("abc");
  row.mutable_alert()->set_rule("level");
  row.set_state("\xFF\xFF");
  EXPECT_THAT(evaluator->Restore(row),
              support::StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("abc")));
}

}  // namespace
}  // namespace foreshock::rules
