// Loading: the shipped pack, good files, and bad files with their exact messages
// (tests/data/rules/x.bad.yaml, x.bad.txt).
#include "daemon/rules/rule_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/rules/rule.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::filesystem::path kData =
    std::filesystem::path(FORESHOCK_SOURCE_DIR) / "tests/data/rules";

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RuleSetTest, TheDefaultPackLoads) {
  const std::vector<std::string> files = {FORESHOCK_SOURCE_DIR "/rules/default.yaml",
                                          FORESHOCK_SOURCE_DIR "/rules/signatures.yaml"};
  ASSERT_OK_AND_ASSIGN(auto rules, LoadRules(files));
  std::vector<std::string> critical;
  for (const v1::RuleInfo& info : rules->infos()) {
    EXPECT_FALSE(info.name().empty());
    if (info.severity() == "critical") critical.push_back(info.name());
    // Only signatures may warn or page: a single indicator does not name a fault.
    if (info.group() != "signatures") {
      EXPECT_EQ(info.severity(), "info") << info.name();
    }
  }
  // What may wake somebody up, whatever the evidence.
  EXPECT_THAT(critical, UnorderedElementsAre("nonfinite_rank", "hang", "unknown_nonfinite",
                                             "unknown_loss_zero", "unknown_loss_scale"));
}

// The fault ids that a label may have, each with a signature and a page that says what to do.
TEST(RuleSetTest, AKeyThatIsGoneSaysWhatEndsAnAlert) {
  const auto rules =
      ParseRules("old.yaml",
                 "groups:\n"
                 "  - name: g\n"
                 "    defaults: {release_samples: 200, labels: {severity: info}}\n"
                 "    rules:\n"
                 "      - {alert: a, indicator: train.loss, threshold: {above: 1}}\n");
  EXPECT_THAT(
      std::string(rules.status().message()),
      ::testing::HasSubstr("old.yaml:3:33: `release_samples` is gone: no alert ends because "
                           "time has passed"));
}

TEST(RuleSetTest, ARuleThatIsAcceptedWhileAnUnknownOneFiresIsAnError) {
  const auto rules =
      ParseRules("r.yaml",
                 "groups:\n"
                 "  - name: g\n"
                 "    defaults: {labels: {severity: info}}\n"
                 "    rules:\n"
                 "      - {alert: falls, indicator: train.loss, level: {fall: 0.1}}\n"
                 "      - alert: a\n"
                 "        indicator: train.grad_norm\n"
                 "        level: {rise: 1}\n"
                 "        accept_while: fals\n"
                 "      - {alert: b, indicator: train.loss, level: {fall: 1}}\n"
                 "      - {alert: c, indicator: train.loss, level: {}}\n"
                 "      - alert: d\n"
                 "        indicator: train.loss\n"
                 "        level: {rise: 1}\n"
                 "        promise: 20 steps\n");
  EXPECT_EQ(
      std::string(rules.status().message()),
      "r.yaml:9:23: unknown rule fals; did you mean falls?\n"
      "r.yaml:10:57: `fall` is 1; less than 1 is allowed: a positive series cannot lose all of "
      "it\n"
      "r.yaml:11:50: exactly one of rise, fall is expected: how far from what it was, for "
      "example `rise: 0.05` for five percent or `rise: 1` for a doubling\n"
      "r.yaml:15:18: the promise 20 steps is not allowed; write in how many samples at most one "
      "start may be false, at least 100, for example \"100000 samples\"");
}

TEST(RuleSetTest, EveryFaultHasASignatureARunbookAndAStatedConfidence) {
  const std::string file = FORESHOCK_SOURCE_DIR "/rules/signatures.yaml";
  const std::vector<std::string> files = {FORESHOCK_SOURCE_DIR "/rules/default.yaml", file};
  ASSERT_OK_AND_ASSIGN(auto loaded, LoadRules(files));
  const auto rules = std::dynamic_pointer_cast<const CompiledRules>(loaded);
  ASSERT_NE(rules, nullptr);
  std::set<std::string> faults;
  for (const auto& held : rules->signatures) {
    const Signature& signature = *held;
    faults.insert(signature.fault);
    EXPECT_EQ(signature.annotations.runbook, absl::StrCat("docs/runbooks/", signature.fault, ".md"))
        << signature.name;
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(FORESHOCK_SOURCE_DIR) /
                                        signature.annotations.runbook))
        << signature.annotations.runbook;
  }
  EXPECT_THAT(faults,
              ::testing::UnorderedElementsAre(
                  "low_precision_attention", "learning_rate_too_high", "combined", "logit_growth",
                  "router_collapse", "dead_experts", "nonfinite_rank", "data_batch",
                  "optimizer_fault", "resume_fault", "actor_update_omitted", "train_infer_mismatch",
                  "reward_collapse", "hang", "rank_outlier", "unknown"));
  const std::string text = ReadFile(file);
  const auto count = [&text](const std::string& line) {
    size_t n = 0;
    for (size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("\n    confidence: "), rules->signatures.size());
}

TEST(RuleSetTest, TheExamplesLoad) {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(FORESHOCK_SOURCE_DIR "/rules/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    ++examples;
    EXPECT_OK(LoadRules({{entry.path().string()}})) << entry.path();
  }
  EXPECT_GT(examples, 0);
}

// Every block of docs/rules.md that is a rule.
TEST(RuleSetTest, TheRulesOfTheDocsLoad) {
  support::TempDir dir;
  std::ofstream(dir.File("good.band.yaml"))
      << "version: 1\nalign: step\nseries: [{indicator: attn.delta2.entropy_ratio_l1, aggregate: "
         "mean, layer: 0, points: [[0, 0.9, 0.01]]}]\n";
  std::istringstream docs(ReadFile(FORESHOCK_SOURCE_DIR "/docs/rules.md"));
  std::string rules;
  int alerts = 0;
  bool inside = false;
  for (std::string line; std::getline(docs, line);) {
    if (line.substr(0, 8) == "- alert:") {
      inside = true;
      ++alerts;
    }
    if (line == "```") inside = false;
    if (inside) absl::StrAppend(&rules, "      ", line, "\n");
  }
  EXPECT_GE(alerts, 10);
  EXPECT_OK(ParseRules(dir.File("rules.yaml"),
                       absl::StrCat("groups:\n  - name: g\n    defaults: {labels: {severity: "
                                    "info}}\n    rules:\n",
                                    rules)));
}

TEST(RuleSetTest, InfosAreInFileOrder) {
  const std::string text = R"(
groups:
  - name: one
    rules:
      - {alert: b, indicator: train.loss, threshold: {above: 1}, labels: {severity: warning},
         annotations: {summary: "loss is {{value}}"}}
      - {alert: a, indicator: train.loss, threshold: {above: 1}, labels: {severity: info}}
signatures:
  - {signature: s, when: b, labels: {severity: critical, fault: x}}
)";
  ASSERT_OK_AND_ASSIGN(auto rules, ParseRules("f.yaml", text));
  ASSERT_EQ(rules->infos().size(), 3u);
  EXPECT_EQ(rules->infos()[0].name(), "b");
  EXPECT_EQ(rules->infos()[0].group(), "one");
  EXPECT_EQ(rules->infos()[0].indicator(), "train.loss");
  EXPECT_EQ(rules->infos()[0].severity(), "warning");
  EXPECT_EQ(rules->infos()[0].file(), "f.yaml");
  EXPECT_EQ(rules->infos()[0].summary(), "loss is {{value}}");
  EXPECT_EQ(rules->infos()[1].name(), "a");
  EXPECT_EQ(rules->infos()[2].name(), "s");
  EXPECT_EQ(rules->infos()[2].indicator(), "");
}

TEST(RuleSetTest, AnEmptyFileIsASetWithoutRules) {
  ASSERT_OK_AND_ASSIGN(auto rules, ParseRules("f.yaml", ""));
  EXPECT_TRUE(rules->infos().empty());
}

TEST(RuleSetTest, SignaturesMayNameAlertsOfOtherFiles) {
  support::TempDir dir;
  std::ofstream(dir.File("a.yaml")) << "signatures:\n  - {signature: s, when: r, labels: "
                                       "{severity: info, fault: x}}\n";
  std::ofstream(dir.File("b.yaml")) << "groups:\n  - name: g\n    rules:\n      - {alert: r, "
                                       "indicator: train.loss, threshold: {above: 1}, labels: "
                                       "{severity: info}}\n";
  EXPECT_OK(LoadRules({{dir.File("a.yaml"), dir.File("b.yaml")}}));
  EXPECT_THAT(LoadRules({{dir.File("a.yaml")}}),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown alert r")));
}

TEST(RuleSetTest, ErrorsOfAllFilesAreReportedAtOnce) {
  support::TempDir dir;
  std::ofstream(dir.File("a.yaml")) << "grups: []\n";
  std::ofstream(dir.File("b.yaml")) << "groups: 3\n";
  EXPECT_THAT(LoadRules({{dir.File("none.yaml"), dir.File("a.yaml"), dir.File("b.yaml")}}),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                ::testing::AllOf(HasSubstr("none.yaml: No such file or directory"),
                                                 HasSubstr("a.yaml:1:1: unknown key `grups`"),
                                                 HasSubstr("b.yaml:1:9: `groups` is 3"))));
}

model::ClosedStep StepOfX(int64_t step, double x) {
  return MakeStep(step, {MakeSample("train.x", x)});
}

TEST(RuleSetTest, TenThousandRulesLoadAndJudgeAndOneMoreDoesNot) {
  const auto text = [](int count) {
    std::string rules =
        "groups:\n  - name: g\n    defaults: {labels: {severity: info}}\n    rules:\n";
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&rules, "      - {alert: r", i,
                      ", indicator: train.x, threshold: {above: 1}}\n");
    }
    return rules;
  };
  ASSERT_OK_AND_ASSIGN(auto rules, ParseRules("f.yaml", text(10000)));
  EXPECT_EQ(rules->infos().size(), 10000u);
  Evaluator evaluator(rules, "run", v1::ModelShape());
  evaluator.BeginAttempt({.number = 1, .resume_step = std::nullopt});
  EXPECT_TRUE(evaluator.Evaluate(StepOfX(0, 5)).empty());  // the warm-up
  EXPECT_EQ(evaluator.Evaluate(StepOfX(150, 5)).size(), 10000u);
  EXPECT_EQ(evaluator.Evaluate(StepOfX(151, 0)).size(), 10000u);
  EXPECT_THAT(ParseRules("f.yaml", text(10001)),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 10000")));
}

class BadRulesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BadRulesTest, GivesExactlyTheseMessages) {
  const std::filesystem::path yaml = kData / absl::StrCat(GetParam(), ".bad.yaml");
  const std::string name = yaml.filename().string();
  const auto rules = ParseRules(name, ReadFile(yaml));
  ASSERT_FALSE(rules.ok());
  EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(absl::StrCat(rules.status().message(), "\n"),
            ReadFile(kData / absl::StrCat(GetParam(), ".bad.txt")));
}

std::vector<std::string> BadFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    const std::string name = entry.path().filename().string();
    const size_t suffix = name.rfind(".bad.yaml");
    if (suffix != std::string::npos) names.push_back(name.substr(0, suffix));
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, BadRulesTest, ::testing::ValuesIn(BadFiles()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace foreshock::rules
