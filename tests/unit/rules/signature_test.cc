// Combinations of alerts: conditions, order, evidence, confirmations, attribution.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Rules a, b, c fire while train.a, train.b, train.c are above 1; p per layer.
std::string Set(const std::string& signatures) {
  std::string text =
      "groups:\n"
      "  - name: g\n"
      "    defaults: {labels: {severity: info}, warm_up: judge}\n"
      "    rules:\n";
  for (const char* name : {"a", "b", "c"}) {
    absl::StrAppend(&text, "      - {alert: ", name, ", indicator: train.", name,
                    ", threshold: {above: 1}}\n");
  }
  for (const char* name : {"p", "q"}) {
    absl::StrAppend(&text, "      - {alert: ", name,
                    ", indicator: ", name[0] == 'p' ? "router.top_k_mass" : "router.z",
                    ", threshold: {above: 1}}\n");
  }
  return absl::StrCat(text, "signatures:\n", signatures);
}

std::string Signature(const std::string& name, const std::string& keys,
                      const std::string& severity = "warning") {
  return absl::StrCat("  - {signature: ", name, ", ", keys, ", labels: {severity: ", severity,
                      ", fault: ", name, "}}\n");
}

// "ab" means: a and b are above their limits; digits are layers of p, then, behind '/', of q.
class SignatureRun : public TestRun {
 public:
  using TestRun::TestRun;
  void Next(const std::string& on) {
    std::vector<model::Sample> samples;
    for (const char c : {'a', 'b', 'c'}) {
      samples.push_back(MakeSample(absl::StrCat("train.", std::string(1, c)),
                                   on.find(c) != std::string::npos ? 2 : 0));
    }
    const size_t slash = on.find('/');
    for (int32_t layer = 0; layer < 3; ++layer) {
      const char digit = static_cast<char>('0' + layer);
      const size_t p = on.find(digit);
      const size_t q = on.rfind(digit);
      const bool p_on = p != std::string::npos && p < std::min(slash, on.size());
      const bool q_on = slash != std::string::npos && q != std::string::npos && q > slash;
      samples.push_back(MakeSample("router.top_k_mass", p_on ? 2 : 0, layer));
      samples.push_back(MakeSample("router.z", q_on ? 2 : 0, layer));
    }
    Step(step_++, samples);
  }
  void Play(const std::vector<std::string>& steps) {
    for (const std::string& step : steps) Next(step);
  }
  // Of signatures only.
  std::vector<std::string> Said() const {
    std::vector<std::string> said;
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!rows[i].alert().fault().empty()) said.push_back(seen[i]);
    }
    return said;
  }
  const v1::Alert& Last() const {
    for (size_t i = rows.size(); i-- > 0;) {
      if (!rows[i].alert().fault().empty()) return rows[i].alert();
    }
    return rows.back().alert();
  }

 private:
  int64_t step_ = 0;
};

TEST(SignatureTest, Conditions) {
  const struct {
    const char* when;
    std::vector<const char*> holds;
    std::vector<const char*> fails;
  } kCases[] = {
      {"a", {"a", "ab"}, {"", "b"}},
      {"{all: [a, b]}", {"ab", "abc"}, {"", "a", "b", "bc"}},
      {"{any: [a, b]}", {"a", "b", "ab"}, {"", "c"}},
      {"{at_least: 2, of: [a, b, c]}", {"ab", "bc", "abc"}, {"", "a", "c"}},
      {"{any: [a, {all: [b, c]}]}", {"a", "bc"}, {"b", "c"}},
      {"{same_layer: [p, q]}", {"0/0", "12/2"}, {"0/1", "0", "/0", ""}},
  };
  for (const auto& test : kCases) {
    for (const char* on : test.holds) {
      SignatureRun run(Set(Signature("s", absl::StrCat("when: ", test.when))));
      run.Next(on);
      EXPECT_EQ(run.Said().size(), 1u) << test.when << " on " << on;
    }
    for (const char* on : test.fails) {
      SignatureRun run(Set(Signature("s", absl::StrCat("when: ", test.when))));
      run.Next(on);
      EXPECT_THAT(run.Said(), IsEmpty()) << test.when << " on " << on;
    }
  }
}

TEST(SignatureTest, PointsAgainstHoldOnlyTheStartBack) {
  SignatureRun run(
      Set(Signature("s", "when: a, score: [{if: a, points: 2}, {if: b, points: -2}]")));
  run.Play({"ab", "ab", "a", "ab", "ab", "b"});
  // The second row is the evidence against it that came later.
  EXPECT_THAT(run.Said(), ElementsAre("2 s firing", "3 s firing", "5 s resolved"));
}

TEST(SignatureTest, EarlierSignaturesOfTheSamePassCount) {
  SignatureRun run(Set(Signature("s", "when: a") + Signature("u", "when: {all: [s, b]}")));
  run.Play({"a", "ab"});
  EXPECT_THAT(run.Said(), ElementsAre("0 s firing", "1 u firing"));
}

TEST(SignatureTest, ResolvesWhenNoneOfItsAlertsFires) {
  SignatureRun run(Set(Signature("s", "when: {all: [a, b]}")));
  run.Play({"ab", "a", "b", ""});
  EXPECT_EQ(run.Said().back(), "3 s resolved");
}

TEST(SignatureTest, WindowAndKeepFiringFor) {
  SignatureRun run(Set(Signature("s", "when: {all: [a, b]}, window: 3 steps")));
  run.Play({"a", "", "", "b"});  // a resolved at 1, b came at 3
  EXPECT_EQ(run.Said().front(), "3 s firing");
  SignatureRun strict(Set(Signature("s", "when: {all: [a, b]}, window: 1 steps")));
  strict.Play({"a", "", "", "b"});
  EXPECT_THAT(strict.Said(), IsEmpty());

  SignatureRun kept(Set(Signature("s", "when: a, keep_firing_for: 3 steps")));
  kept.Play({"a", "", "", "", ""});
  EXPECT_EQ(kept.Said().back(), "3 s resolved");
}

TEST(SignatureTest, ForInStepsAndSamples) {
  SignatureRun steps(Set(Signature("s", "when: a, for: 2 steps")));
  steps.Play({"a", "a", "a"});
  EXPECT_THAT(steps.Said(), ElementsAre("2 s firing"));
  SignatureRun broken(Set(Signature("s", "when: a, for: 2 steps")));
  broken.Play({"a", "a", "", "a", "a"});
  EXPECT_THAT(broken.Said(), IsEmpty());
  SignatureRun samples(Set(Signature("s", "when: a, for: 1 samples")));
  samples.Next("a");
  samples.Step(50, {});  // no sample of a
  EXPECT_THAT(samples.Said(), IsEmpty());
  samples.Step(51, {MakeSample("train.a", 2)});
  EXPECT_THAT(samples.Said(), ElementsAre("51 s firing"));
}

TEST(SignatureTest, WaitsForAnotherRulesSamples) {
  const std::string set =
      Set(Signature("s", "when: a, wait: {while: b, samples_of: p, samples: 2}"));
  SignatureRun quick(set);
  quick.Play({"a"});
  EXPECT_THAT(quick.Said(), ElementsAre("0 s firing"));
  SignatureRun slow(set);
  slow.Play({"ab", "ab", "ab", "ab"});
  EXPECT_THAT(slow.Said(), ElementsAre("2 s firing"));
}

TEST(SignatureTest, WaitsWhateverFiresButNotForWhatHasJudgedNothing) {
  SignatureRun run(Set(Signature("s", "when: a, wait: {samples_of: p, samples: 2}")));
  run.Play({"", "a", "a", "a", "a"});
  EXPECT_THAT(run.Said(), ElementsAre("3 s firing"));
  std::string set = Set(Signature("s", "when: a, wait: {samples_of: never, samples: 2}"));
  set.insert(set.find("signatures:"),
             "      - {alert: never, indicator: train.never, threshold: {above: 1}}\n");
  SignatureRun none(set);
  none.Play({"", "a"});
  EXPECT_THAT(none.Said(), ElementsAre("1 s firing"));
}

TEST(SignatureTest, WaitsNoLongerThanTwoHundredSteps) {
  SignatureRun run(Set(Signature("s", "when: a, wait: {samples_of: p, samples: 2}")));
  run.Next("a");  // p is judged at this step and never again
  for (int64_t step = 1; step <= 250; ++step) run.Step(step, {MakeSample("train.a", 2)});
  EXPECT_THAT(run.Said(), ElementsAre("200 s firing"));
}

// A name of one alert that is worth `points`.
std::string Name(const std::string& name, const std::string& alert, int points,
                 const std::string& more = "") {
  return Signature(name, absl::StrCat("when: ", alert, ", score: [{if: ", alert,
                                      ", points: ", points, "}]", more));
}

TEST(SignatureTest, ABetterExplanationIsToldInstead) {
  SignatureRun run(Set(Name("weak", "a", 1) + Name("strong", "b", 2, ", explains: [a]")));
  run.Play({"a", "ab", "a"});
  // A lead of one leaves the older name beside the new one.
  EXPECT_THAT(run.Said(), ElementsAre("0 weak firing", "1 strong firing", "2 strong resolved"));
  SignatureRun first(Set(Name("weak", "a", 1) + Name("strong", "b", 2, ", explains: [a]")));
  first.Play({"ab", "ab", "a"});
  EXPECT_THAT(first.Said(), ElementsAre("0 strong firing", "2 weak firing", "2 strong resolved"));
}

TEST(SignatureTest, WhatNobodyElseExplainsIsToldBeside) {
  SignatureRun run(Set(Name("weak", "a", 1) + Name("strong", "b", 9)));
  run.Play({"b", "ab"});
  EXPECT_THAT(run.Said(), ElementsAre("0 strong firing", "1 weak firing"));
}

TEST(SignatureTest, ALeadOfTwoPointsEndsTheOlderName) {
  SignatureRun run(Set(Name("weak", "a", 1) + Name("strong", "b", 3, ", explains: [a]")));
  run.Play({"a", "ab", "ab", "a"});
  EXPECT_THAT(run.Said(), ElementsAre("0 weak firing", "1 weak resolved", "1 strong firing",
                                      "3 weak firing", "3 strong resolved"));
  for (const model::AlertRow& row : run.rows) {
    if (row.alert().rule() != "weak" || row.alert().state() != v1::ALERT_STATE_RESOLVED) continue;
    EXPECT_THAT(row.alert().description(),
                HasSubstr("Better explained by strong (3 points against 1)."));
  }
}

TEST(SignatureTest, WhatHasSpokenForANameThatFiresGoesOnToCount) {
  SignatureRun run(
      Set(Signature("strong", "when: {any: [a, b]}, score: [{if: b, points: 3}], explains: [a]") +
          Name("weak", "a", 2)));
  run.Play({"ab", "a", "a", "", "a"});
  EXPECT_THAT(run.Said(), ElementsAre("0 strong firing", "1 strong firing", "3 strong resolved",
                                      "4 weak firing"));
}

TEST(SignatureTest, OfEqualNamesTheFirstIsToldAndNamesTheOther) {
  SignatureRun run(Set(Name("first", "a", 2) + Name("second", "a", 2)));
  run.Play({"a"});
  EXPECT_THAT(run.Said(), ElementsAre("0 first firing"));
  EXPECT_THAT(run.Last().description(), HasSubstr("Also possible: second (2 points against 2)."));
  SignatureRun clear(Set(Name("first", "a", 5) + Name("second", "a", 2)));
  clear.Play({"a"});
  EXPECT_THAT(clear.Last().description(), Not(HasSubstr("Also possible")));
}

TEST(SignatureTest, WithoutPointsNothingIsTold) {
  SignatureRun run(Set(Signature("s", "when: a, score: [{if: b, points: 1}]")));
  run.Play({"a", "ab"});
  EXPECT_THAT(run.Said(), ElementsAre("1 s firing"));
}

TEST(SignatureTest, BrewingIsABreachThatDoesNotFireYet) {
  std::string set = Set(
      Signature("s", "when: a, score: [{if: a, points: 2}, {if: {brewing: slow}, points: -2}]"));
  const std::string rule =
      "      - {alert: slow, indicator: train.b, threshold: {above: 1}, hits: 3 of 3}\n";
  set.insert(set.find("signatures:"), rule);
  SignatureRun run(set);
  run.Play({"ab", "a"});
  EXPECT_THAT(run.Said(), ElementsAre("1 s firing"));
}

TEST(SignatureTest, HealedIsTrueAtTheStepOfTheRecovery) {
  SignatureRun run(Set(Signature("s", "when: {healed: a, within: 2 steps}", "info")));
  run.Play({"a", "a", "", "", "a", "a", "a", "a", ""});
  EXPECT_THAT(run.Said(), ElementsAre("2 s firing", "3 s resolved"));
}

TEST(SignatureTest, ConfirmationsRaiseButNeverLower) {
  SignatureRun run(
      Set("  - signature: s\n"
          "    when: a\n"
          "    confidence: low\n"
          "    confirmations: [{when: b, severity: critical, confidence: high}]\n"
          "    labels: {severity: warning, fault: s}\n"));
  run.Play({"a", "ab", "a"});
  std::vector<std::string> severities;
  for (const model::AlertRow& row : run.rows) {
    if (!row.alert().fault().empty()) severities.push_back(row.alert().severity());
  }
  EXPECT_THAT(severities, ElementsAre("warning", "critical", "critical"));
  EXPECT_THAT(run.Last().description(), HasSubstr("Confidence: high."));
}

TEST(SignatureTest, OnlyWhatWarnsAdvisesARollBack) {
  SignatureRun run(Set(Signature("s", "when: a")));
  run.Next("a");
  ASSERT_EQ(run.rows.size(), 2);
  const v1::Alert& rule = run.rows[0].alert();
  EXPECT_EQ(rule.severity(), "info");
  EXPECT_THAT(rule.description(), "Last healthy step: 0.");
  const v1::Alert& signature = run.rows[1].alert();
  EXPECT_EQ(signature.severity(), "warning");
  EXPECT_THAT(signature.description(), HasSubstr("Roll back to a checkpoint at or before step 0."));
  EXPECT_THAT(signature.summary(), HasSubstr(" is "));
  run.Next("");
  EXPECT_THAT(run.Last().summary(), HasSubstr("Steps 0 to 1: train.a was at worst 2 (step 0)"));
  EXPECT_THAT(run.Last().description(),
              AllOf(HasSubstr("It is over since step 1."), Not(HasSubstr("Roll back")),
                    HasSubstr("While it fired, the advice was to roll back to a checkpoint at or "
                              "before step 0.")));
}

TEST(SignatureTest, LayersAreThoseOfItsAlerts) {
  SignatureRun run(Set(Signature("s", "when: {any: [a, p]}")));
  run.Next("2");
  EXPECT_THAT(run.Last().layers(), ElementsAre(2));
  EXPECT_FALSE(run.Last().all_layers());
  run.Next("12");
  EXPECT_THAT(run.Last().layers(), ElementsAre(1, 2));
  run.Next("012");
  EXPECT_TRUE(run.Last().all_layers());

  // Evidence of the whole run names no layer.
  SignatureRun run_wide(Set(Signature("s", "when: {any: [a, p]}")));
  run_wide.Next("a");
  EXPECT_THAT(run_wide.Last().layers(), IsEmpty());
  EXPECT_FALSE(run_wide.Last().all_layers());
}

TEST(SignatureTest, EvidenceThatHasEndedStaysWithWhatItWas) {
  SignatureRun run(Set(Signature("s", "when: {any: [a, b]}")));
  run.Play({"", "a", "ab", "b", ""});
  const v1::Alert& alert = run.Last();
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_RESOLVED);
  ASSERT_EQ(alert.evidence_size(), 2);
  EXPECT_EQ(alert.evidence(0).rule(), "a");
  EXPECT_TRUE(alert.evidence(0).supports());
  EXPECT_EQ(alert.evidence(0).text(), "since step 1, over at step 3, at worst value 2");
  EXPECT_EQ(alert.evidence(1).text(), "since step 2, over at step 4, at worst value 2");
  EXPECT_EQ(alert.indicator(), "train.a");
  EXPECT_EQ(alert.value(), 2);
  EXPECT_EQ(alert.worst_step(), 1);
}

TEST(SignatureTest, WhatHasHealedSpeaksForIt) {
  SignatureRun run(Set(Signature("s", "when: {healed: a, within: 2 steps}", "info")));
  run.Play({"a", "a", ""});
  const v1::Alert& alert = run.Last();
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_FIRING);
  ASSERT_EQ(alert.evidence_size(), 1);
  EXPECT_TRUE(alert.evidence(0).supports());
  EXPECT_EQ(alert.evidence(0).step(), 0);
  EXPECT_EQ(alert.value(), 2);
}

TEST(SignatureTest, EvidenceShowsTheFirstMoversFirstAndWhatDidNotMove) {
  SignatureRun run(Set(Signature(
      "s", "when: {all: [a, b]}, score: [{if: {all: [a, b]}, points: 2}, {if: c, points: -1}]")));
  run.Play({"", "b", "ab"});
  const v1::Alert& alert = run.Last();
  ASSERT_EQ(alert.evidence_size(), 3);
  EXPECT_EQ(alert.evidence(0).rule(), "b");
  EXPECT_EQ(alert.evidence(0).step(), 1);
  EXPECT_TRUE(alert.evidence(0).supports());
  EXPECT_EQ(alert.evidence(1).rule(), "a");
  EXPECT_EQ(alert.evidence(1).step(), 2);
  EXPECT_EQ(alert.evidence(2).rule(), "c");
  EXPECT_FALSE(alert.evidence(2).has_step());
  EXPECT_TRUE(alert.evidence(2).supports());  // its silence speaks for the fault
  EXPECT_EQ(alert.pending_step(), 1);
  EXPECT_EQ(alert.last_healthy_step(), 0);
  EXPECT_EQ(alert.indicator(), "train.b");
  EXPECT_THAT(alert.summary(), HasSubstr("probable fault: s"));
  EXPECT_THAT(alert.description(), HasSubstr("Moved, first to last: b (step 1), a (step 2)."));
  // c moves later: evidence against.
  run.Next("abc");
  EXPECT_EQ(run.Last().evidence(2).rule(), "c");
  EXPECT_FALSE(run.Last().evidence(2).supports());
}

TEST(SignatureTest, AfterResumeHoldsOnlyInTheFirstStepsOfAResumedAttempt) {
  SignatureRun run(Set(Signature("s", "when: a, after_resume: 3 steps")));
  run.Play({"a", ""});
  EXPECT_THAT(run.Said(), IsEmpty());
  run.evaluator->BeginAttempt({.number = 2, .resume_step = std::nullopt});
  run.Step(2, {MakeSample("train.a", 0)});
  run.Step(4, {MakeSample("train.a", 2)});
  EXPECT_THAT(run.Said(), ElementsAre("4 s firing"));
  run.Step(5, {MakeSample("train.a", 0)});
  run.Step(6, {MakeSample("train.a", 2)});
  EXPECT_THAT(run.Said(), ElementsAre("4 s firing", "5 s resolved"));
}

TEST(SignatureTest, AfterResumeWantsWhatBeganAfterIt) {
  SignatureRun run(Set(Signature("s", "when: {any: [a, b]}, after_resume: 5 steps")));
  run.Play({"", "a", "a"});
  run.evaluator->BeginAttempt({.number = 2, .resume_step = std::nullopt});
  run.Step(1, {MakeSample("train.a", 2), MakeSample("train.b", 0)});  // as ill as before
  run.Step(2, {MakeSample("train.a", 2), MakeSample("train.b", 0)});
  EXPECT_THAT(run.Said(), IsEmpty());
  run.Step(3, {MakeSample("train.a", 2), MakeSample("train.b", 2)});
  EXPECT_THAT(run.Said(), ElementsAre("3 s firing"));
}

}  // namespace
}  // namespace foreshock::rules
