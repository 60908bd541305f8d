// From the YAML of a test file to steps and expectations. Errors go into the document of the node.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "daemon/backtest/rule_test.h"
#include "daemon/backtest/series_notation.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::backtest {
namespace {

using Expectation = RuleTestExpectation;

constexpr yaml::YamlRange<int64_t> kSteps = {0, int64_t{1} << 53};
constexpr yaml::YamlRange<int64_t> kIds = {0, 1 << 20};
constexpr absl::string_view kSeverities[] = {"info", "warning", "critical"};
constexpr int64_t kStepsMax = 1'000'000;    // of all tests of a file
constexpr size_t kSamplesMax = 20'000'000;  // of all tests of a file

struct EventWord {
  absl::string_view word;
  v1::EventKind kind;
};
constexpr EventWord kEvents[] = {
    {"warmup_end", v1::EVENT_KIND_WARMUP_END},
    {"lr_phase", v1::EVENT_KIND_LR_PHASE},
    {"batch_size", v1::EVENT_KIND_BATCH_SIZE},
    {"data_change", v1::EVENT_KIND_DATA_CHANGE},
    {"evaluation", v1::EVENT_KIND_EVALUATION},
    {"checkpoint_saved", v1::EVENT_KIND_CHECKPOINT_SAVED},
    {"note", v1::EVENT_KIND_NOTE},
    {"level_accepted", v1::EVENT_KIND_LEVEL_ACCEPTED},
};
struct FlagWord {
  absl::string_view word;
  uint32_t flag;
};
constexpr FlagWord kFlags[] = {
    {"grid", model::kFlagGrid},       {"gram32", model::kFlagGram32},
    {"sampled", model::kFlagSampled}, {"few_tokens", model::kFlagFewTokens},
    {"partial", model::kFlagPartial}, {"rebaseline", model::kFlagRebaseline},
};
struct UnitKeys {
  absl::string_view one;
  absl::string_view many;
  model::Unit unit;
};
constexpr UnitKeys kUnits[] = {
    {"head", "heads", model::Unit::kHead},
    {"expert", "experts", model::Unit::kExpert},
    {"projection", "projections", model::Unit::kProjection},
    {"rank", "ranks", model::Unit::kRank},
};

template <typename Words>
std::vector<absl::string_view> WordsOf(const Words& words) {
  std::vector<absl::string_view> names;
  for (const auto& entry : words) names.push_back(entry.word);
  return names;
}

std::string Place(const std::string& file, const yaml::YamlNode& node) {
  return absl::StrCat(file, ":", node.line(), ":", node.column());
}

// "10 steps", or 10.
int64_t StepCount(const yaml::YamlNode& node, int64_t fallback) {
  if (!node.present()) return fallback;
  const std::string text = node.String();
  absl::string_view number = text;
  if (!absl::ConsumeSuffix(&number, " steps")) absl::ConsumeSuffix(&number, " step");
  int64_t count = 0;
  if (absl::SimpleAtoi(number, &count) && count >= 1 && count <= kStepsMax) return count;
  node.Error(absl::StrCat("`every` is ", text,
                          "; a number of steps such as \"10 steps\" is expected, "
                          "at most ",
                          kStepsMax));
  return fallback;
}

// The ids under `one` or `many`: {0} by default.
std::vector<int64_t> Ids(const yaml::YamlNode& owner, absl::string_view one,
                         absl::string_view many) {
  const yaml::YamlNode single = owner.Get(one);
  const yaml::YamlNode list = owner.Get(many);
  if (single.present() && list.present()) {
    list.Error(absl::StrCat("`", one, "` and `", many, "` are both there; one of them is enough"));
  }
  if (list.present()) {
    std::vector<int64_t> ids;
    for (const yaml::YamlNode& item : list.Items()) ids.push_back(item.Int(kIds));
    return ids;
  }
  return {single.Int(kIds, 0)};
}

std::vector<SeriesValue> Values(const yaml::YamlNode& node) {
  const absl::StatusOr<std::vector<SeriesValue>> values = ParseSeriesValues(node.String());
  if (values.ok()) return *values;
  node.Error(values.status().message());
  return {};
}

class FileParser {
 public:
  FileParser(const std::string& file, absl::string_view text, std::string directory)
      : file_(file), directory_(std::move(directory)), document_(file, text) {}

  absl::StatusOr<RuleTestFile> Parse() {
    const yaml::YamlNode root = document_.root();
    RuleTestFile parsed;
    std::vector<std::string> files;
    const yaml::YamlNode rule_files = root.Require("rule_files");
    for (const std::string& name : rule_files.Strings()) files.push_back(Resolve(name));
    if (rule_files.is_list() && files.empty()) {
      rule_files.Error(
          "`rule_files` is empty; name the rule files under test, relative to this file");
    }
    if (!files.empty()) {
      auto rules = rules::LoadRules(files);
      // Its messages have places of their own, in those files.
      FORESHOCK_RETURN_IF_ERROR(rules.status());
      parsed.rules = *std::move(rules);
      for (const v1::RuleInfo& info : parsed.rules->infos()) alerts_.push_back(info.name());
    }
    const yaml::YamlNode tests = root.Require("tests");
    absl::flat_hash_set<std::string> names;
    for (const yaml::YamlNode& node : tests.Items()) {
      parsed.tests.push_back(ParseTest(node));
      const yaml::YamlNode name = node.Get("name");
      if (!names.insert(name.String()).second) {
        name.Error(absl::StrCat("the name ", name.String(),
                                " is there twice; tests have names of "
                                "their own"));
      }
    }
    if (tests.is_list() && parsed.tests.empty())
      tests.Error("`tests` is empty; there is nothing to run");
    FORESHOCK_RETURN_IF_ERROR(document_.status());
    return parsed;
  }

 private:
  std::string Resolve(const std::string& name) const {
    return name.empty() || name[0] == '/' ? name : absl::StrCat(directory_, name);
  }

  RuleTestCase ParseTest(const yaml::YamlNode& node) {
    RuleTestCase test;
    test.place = Place(file_, node);
    test.name = node.Require("name").String();
    ParseModel(node.Get("model"), &test.model);

    const yaml::YamlNode capture = node.Get("capture");
    const yaml::YamlNode attempts = node.Get("attempts");
    const yaml::YamlNode input = node.Get("input");
    const int sources = capture.present() + attempts.present() + input.present();
    if (sources != 1 && node.is_map()) {
      node.Error(
          "a test has one of `input` (series), `attempts` (each with its own `input`) and "
          "`capture` (a file)");
    }
    const Defaults defaults = ParseDefaults(node);
    if (capture.present()) {
      test.capture = Resolve(capture.String());
      if (!std::filesystem::is_regular_file(test.capture)) {
        capture.Error(absl::StrCat("there is no file ", test.capture));
      }
    } else if (attempts.present()) {
      for (const yaml::YamlNode& attempt : attempts.Items()) ParseAttempt(attempt, defaults, &test);
    } else if (input.present()) {
      ParseAttempt(node, defaults, &test);
    }
    const yaml::YamlNode expect = node.Require("expect");
    for (const yaml::YamlNode& item : expect.Items())
      test.expect.push_back(ParseExpectation(item, test));
    if (expect.is_list() && test.expect.empty())
      expect.Error("`expect` is empty; nothing is tested");
    return test;
  }

  static void ParseModel(const yaml::YamlNode& node, v1::ModelShape* model) {
    const auto number = [&node](absl::string_view key) {
      return static_cast<uint32_t>(node.Get(key).Int({0, 1 << 20}));
    };
    model->set_layers(number("layers"));
    model->set_heads(number("heads"));
    model->set_kv_heads(number("kv_heads"));
    model->set_head_dim(number("head_dim"));
    model->set_hidden_size(number("hidden_size"));
    model->set_experts(number("experts"));
    model->set_top_k(number("top_k"));
  }

  // What a test says for all of its attempts.
  struct Defaults {
    int64_t every = 1;
    uint32_t ranks = 1;
  };
  static Defaults ParseDefaults(const yaml::YamlNode& node) {
    Defaults defaults;
    defaults.every = StepCount(node.Get("every"), 1);
    defaults.ranks = static_cast<uint32_t>(node.Get("world_size").Int({1, 1 << 20}, 1));
    return defaults;
  }

  // `node`: an item of `attempts`, or the test itself.
  void ParseAttempt(const yaml::YamlNode& node, const Defaults& defaults, RuleTestCase* test) {
    RuleTestCase::Attempt attempt;
    attempt.start.number = static_cast<uint32_t>(test->attempts.size()) + 1;
    const yaml::YamlNode resume = node.Get("resume");
    if (resume.present()) attempt.start.resume_step = resume.Int(kSteps);
    if (resume.present() && test->attempts.empty()) {
      resume.Error(
          "the first attempt resumes nothing; `resume` belongs to the second and later ones");
    }
    const yaml::YamlNode first = node.Get("first_step");
    const int64_t begin = first.Int(kSteps, attempt.start.resume_step.value_or(0));

    std::map<int64_t, model::ClosedStep> steps;
    int64_t end = begin - 1;
    for (const yaml::YamlNode& series : node.Require("input").Items()) {
      ParseSeries(series, begin, defaults, attempt.start.number, &steps, &end);
    }
    const yaml::YamlNode last = node.Get("last_step");
    if (last.present()) {
      const int64_t asked = last.Int(kSteps, std::max(begin, end));
      if (!steps.empty() && asked < steps.rbegin()->first) {
        last.Error(absl::StrCat("`last_step` is ", asked, ", but a series has a value at step ",
                                steps.rbegin()->first));
      } else if (asked < begin) {
        last.Error(absl::StrCat("`last_step` is ", asked, ", before the first step, ", begin));
      }
      end = std::max(end, asked);
    }
    if (end - begin + 1 > kStepsMax - steps_) return TooManySteps(node);
    steps_ += end - begin + 1;
    for (int64_t step = begin; step <= end; ++step) StepAt(step, attempt.start.number, &steps);
    for (auto& [number, step] : steps) step.row.ranks = defaults.ranks;
    ParseRows(node, begin, &steps);
    ParseEvents(node, &steps);
    ParseFindings(node, &steps);
    ParseGaps(node, &steps);
    for (auto& [number, step] : steps) {
      std::stable_sort(
          step.samples.begin(), step.samples.end(),
          [](const model::Sample& a, const model::Sample& b) { return a.series < b.series; });
      attempt.steps.push_back(std::move(step));
    }
    test->attempts.push_back(std::move(attempt));
  }

  static void TooManySteps(const yaml::YamlNode& node) {
    node.Error(absl::StrCat("the file has more than ", kStepsMax, " steps in its tests"));
  }

  static model::ClosedStep& StepAt(int64_t step, uint32_t attempt,
                                   std::map<int64_t, model::ClosedStep>* steps) {
    model::ClosedStep& closed = (*steps)[step];
    closed.run = "test";
    closed.row.attempt = attempt;
    closed.row.step = step;
    return closed;
  }

  void ParseSeries(const yaml::YamlNode& node, int64_t begin, const Defaults& defaults,
                   uint32_t attempt, std::map<int64_t, model::ClosedStep>* steps, int64_t* end) {
    const yaml::YamlNode series = node.Require("series");
    const std::string indicator = series.String();
    const std::string base(absl::StripPrefix(indicator, "eval."));
    if (series.is_scalar() && !model::IsKnownIndicator(indicator)) {
      std::vector<std::string> known;
      for (const model::IndicatorInfo& info : model::Indicators()) known.emplace_back(info.id);
      const absl::string_view near = yaml::NearestWord(indicator, known);
      series.Error(absl::StrCat("there is no indicator ", indicator,
                                near.empty() ? "" : absl::StrCat("; did you mean `", near, "`?"),
                                " An id of docs/indicators/ or train.<scalar> is expected"));
    }
    const model::IndicatorInfo* info = model::FindIndicator(base);
    std::vector<int64_t> layers = {model::kNoLayer};
    if (info == nullptr ? HasAny(node, "layer", "layers") : info->per_layer) {
      layers = Ids(node, "layer", "layers");
      if (info != nullptr && !HasAny(node, "layer", "layers")) {
        series.Error(absl::StrCat(indicator,
                                  " is a series of a layer; add `layer: 0` or `layers: "
                                  "[0, 1]`"));
      }
    }
    model::Unit unit = info == nullptr ? model::Unit::kNone : info->unit;
    for (const UnitKeys& keys : kUnits) {
      if (info == nullptr && keys.unit == model::Unit::kRank && HasAny(node, keys.one, keys.many)) {
        unit = model::Unit::kRank;
      }
    }
    std::vector<int64_t> ids = {0};
    std::string tensor;
    for (const UnitKeys& keys : kUnits) {
      if (unit == keys.unit) ids = Ids(node, keys.one, keys.many);
    }
    if (unit == model::Unit::kTensor) tensor = node.Require("tensor").String();

    const int64_t every = StepCount(node.Get("every"), defaults.every);
    const int64_t from = node.Get("from").Int(kSteps, begin);
    if (from < begin) {
      node.Get("from").Error(absl::StrCat("`from` is ", from, ", before the first step, ", begin));
    }
    uint32_t flags = 0;
    for (const yaml::YamlNode& item : node.Get("flags").Items()) {
      const std::string word = item.Word(WordsOf(kFlags), "grid");
      for (const FlagWord& flag : kFlags) flags |= flag.word == word ? flag.flag : 0;
    }
    const yaml::YamlNode values_node = node.Require("values");
    const std::vector<SeriesValue> values = Values(values_node);
    // Before they are made: a short text can ask for a million steps, again and again.
    const int64_t last = from + (static_cast<int64_t>(values.size()) - 1) * every;
    if (last - begin + 1 > kStepsMax - steps_) return TooManySteps(values_node);
    samples_ += values.size() * layers.size() * ids.size();
    if (samples_ > kSamplesMax) {
      values_node.Error(
          absl::StrCat("the file has more than ", kSamplesMax, " values in its tests"));
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t step = from + static_cast<int64_t>(i) * every;
      *end = std::max(*end, step);
      model::ClosedStep& closed = StepAt(step, attempt, steps);
      if (!values[i].has_value()) continue;
      for (const int64_t layer : layers) {
        for (const int64_t id : ids) {
          const model::SeriesKey key{indicator, static_cast<int32_t>(layer), unit, id, tensor};
          if (std::isfinite(*values[i])) {
            closed.samples.push_back({key, *values[i], flags});
          } else {
            AddFinding({.kind = model::Finding::Kind::kNonFinite,
                        .name = std::string(absl::StripPrefix(indicator, "train.")),
                        .rank = static_cast<uint32_t>(unit == model::Unit::kRank ? id : 0),
                        .layer = static_cast<int32_t>(layer),
                        .head = static_cast<int32_t>(unit == model::Unit::kHead ? id : -1),
                        .count = 1},
                       &closed);
          }
        }
      }
    }
  }

  static bool HasAny(const yaml::YamlNode& node, absl::string_view one, absl::string_view many) {
    return node.Get(one).present() || node.Get(many).present();
  }

  // With the count that the daemon stores of it.
  static void AddFinding(model::Finding finding, model::ClosedStep* closed) {
    const auto counted = std::find_if(closed->samples.begin(), closed->samples.end(),
                                      [&finding](const model::Sample& sample) {
                                        return sample.series.indicator == "train.nonfinite" &&
                                               sample.series.unit_name == finding.name;
                                      });
    const double count = static_cast<double>(finding.count);
    if (counted != closed->samples.end()) {
      counted->value += count;
    } else {
      closed->samples.push_back(
          {{"train.nonfinite", model::kNoLayer, model::Unit::kTensor, 0, finding.name}, count, 0});
    }
    closed->findings.push_back(std::move(finding));
  }

  // `tokens` (a value a step) and `skipped` (steps).
  static void ParseRows(const yaml::YamlNode& node, int64_t begin,
                        std::map<int64_t, model::ClosedStep>* steps) {
    const yaml::YamlNode tokens = node.Get("tokens");
    if (tokens.present()) {
      int64_t step = begin;
      for (const SeriesValue& value : Values(tokens)) {
        const auto closed = steps->find(step++);
        if (closed == steps->end()) {
          tokens.Error("`tokens` has more values than the attempt has steps; it has one a step");
          break;
        }
        if (value.has_value() && std::isfinite(*value) && *value >= 0) {
          closed->second.row.tokens = static_cast<uint64_t>(*value);
        }
      }
    }
    for (const yaml::YamlNode& item : node.Get("skipped_steps").Items()) {
      if (model::ClosedStep* closed = At(item, steps)) closed->row.skipped = true;
    }
  }

  static model::ClosedStep* At(const yaml::YamlNode& node,
                               std::map<int64_t, model::ClosedStep>* steps) {
    const int64_t step = node.Int(kSteps, -1);
    const auto closed = steps->find(step);
    if (closed != steps->end()) return &closed->second;
    if (step >= 0 && !steps->empty()) {
      node.Error(absl::StrCat("step ", step, " is not in the attempt, which has the steps ",
                              steps->begin()->first, " to ", steps->rbegin()->first));
    }
    return nullptr;
  }

  static void ParseEvents(const yaml::YamlNode& node, std::map<int64_t, model::ClosedStep>* steps) {
    for (const yaml::YamlNode& item : node.Get("events").Items()) {
      v1::Event event;
      const std::string word = item.Require("kind").Word(WordsOf(kEvents), "note");
      for (const EventWord& kind : kEvents) {
        if (kind.word == word) event.set_kind(kind.kind);
      }
      event.set_name(item.Get("name").String());
      model::ClosedStep* closed = At(item.Require("step"), steps);
      if (closed == nullptr) continue;
      event.set_step(closed->row.step);
      closed->events.push_back(std::move(event));
    }
  }

  static void ParseFindings(const yaml::YamlNode& node,
                            std::map<int64_t, model::ClosedStep>* steps) {
    for (const yaml::YamlNode& item : node.Get("findings").Items()) {
      model::Finding finding;
      finding.name = item.Require("name").String();
      finding.rank = static_cast<uint32_t>(item.Get("rank").Int(kIds));
      finding.layer = static_cast<int32_t>(item.Get("layer").Int(kIds, model::kNoLayer));
      finding.head = static_cast<int32_t>(item.Get("head").Int(kIds, -1));
      finding.count = static_cast<uint64_t>(item.Get("count").Int({1, int64_t{1} << 40}, 1));
      if (model::ClosedStep* closed = At(item.Require("step"), steps)) {
        AddFinding(std::move(finding), closed);
      }
    }
  }

  // Steps that never close.
  static void ParseGaps(const yaml::YamlNode& node, std::map<int64_t, model::ClosedStep>* steps) {
    for (const yaml::YamlNode& item : node.Get("gaps").Items()) {
      const int64_t from = item.Require("from").Int(kSteps);
      const int64_t to = item.Require("to").Int(kSteps);
      if (to < from) {
        item.Error(absl::StrCat("the gap ends at ", to, ", before it begins at ", from));
        continue;
      }
      steps->erase(steps->lower_bound(from), steps->upper_bound(to));
    }
  }

  std::string ParseAlertName(const yaml::YamlNode& node) const {
    const std::string name = node.String();
    if (!node.is_scalar() || alerts_.empty()) return name;
    if (std::find(alerts_.begin(), alerts_.end(), name) == alerts_.end()) {
      const absl::string_view near = yaml::NearestWord(name, alerts_);
      node.Error(absl::StrCat("the rule files have no alert or signature ", name,
                              near.empty() ? "" : absl::StrCat("; did you mean `", near, "`?")));
    }
    return name;
  }

  std::vector<std::string> ParseAlertNames(const yaml::YamlNode& node) const {
    std::vector<std::string> names;
    if (node.is_scalar()) return {ParseAlertName(node)};
    for (const yaml::YamlNode& item : node.Items()) names.push_back(ParseAlertName(item));
    return names;
  }

  // A step, or {from: 1, to: 2}.
  static void ParseStepRange(const yaml::YamlNode& node, Expectation* e) {
    if (!node.is_map()) {
      e->from = e->to = node.Int(kSteps);
      return;
    }
    e->from = node.Require("from").Int(kSteps);
    e->to = node.Require("to").Int(kSteps);
    if (e->to < e->from) {
      node.Error(absl::StrCat("the range ends at ", e->to, ", before it begins at ", e->from));
    }
  }

  void ParseDetails(const yaml::YamlNode& node, Expectation* e) const {
    e->severity = node.Get("severity").Word(kSeverities);
    if (const yaml::YamlNode fault = node.Get("fault"); fault.present()) e->fault = fault.String();
    if (const yaml::YamlNode rank = node.Get("rank"); rank.present()) {
      e->rank = static_cast<uint32_t>(rank.Int(kIds));
    }
    const yaml::YamlNode layers = node.Get("layers");
    if (layers.is_scalar()) {
      e->all_layers = layers.Word({"all"}) == "all";
    } else if (layers.present()) {
      std::vector<uint32_t> wanted;
      for (const yaml::YamlNode& item : layers.Items()) {
        wanted.push_back(static_cast<uint32_t>(item.Int(kIds)));
      }
      std::sort(wanted.begin(), wanted.end());
      e->layers = std::move(wanted);
    }
  }

  Expectation ParseExpectation(const yaml::YamlNode& node, const RuleTestCase& test) const {
    Expectation e;
    e.place = Place(file_, node);
    const yaml::YamlNode alert = node.Get("alert");
    const yaml::YamlNode first = node.Get("first_step");
    const yaml::YamlNode ends = node.Get("ends");
    const yaml::YamlNode at = node.Get("at");
    const yaml::YamlNode only = node.Get("only");
    const yaml::YamlNode never = node.Get("never");
    const yaml::YamlNode never_severity = node.Get("never_severity");
    if (at.present()) {
      e.from = at.Int(kSteps);
      const yaml::YamlNode attempt = node.Get("attempt");
      if (attempt.present()) e.attempt = static_cast<uint32_t>(attempt.Int({1, 1 << 20}, 1));
      CheckStep(at, e, test);
    }
    if (never.present() && !alert.present() && !at.present() && !never_severity.present()) {
      e.kind = Expectation::Kind::kNever;
      e.names = ParseAlertNames(never);
    } else if (never_severity.present() && !alert.present() && !at.present() && !never.present()) {
      e.kind = Expectation::Kind::kNeverSeverity;
      e.severity = never_severity.Word(kSeverities, "warning");
    } else if (at.present() && only.present() && !alert.present()) {
      e.kind = Expectation::Kind::kOnly;
      e.names = ParseAlertNames(only);
      e.severity = node.Get("severity").Word(kSeverities, "info");
    } else if (alert.present() && first.present() + ends.present() + at.present() == 1) {
      e.alert = ParseAlertName(alert);
      ParseDetails(node, &e);
      if (at.present()) {
        e.kind = Expectation::Kind::kAt;
        e.firing = node.Get("firing").Bool(true);
      } else {
        e.kind = first.present() ? Expectation::Kind::kFirst : Expectation::Kind::kEnds;
        ParseStepRange(first.present() ? first : ends, &e);
      }
    } else if (node.is_map()) {
      node.Error(
          "an item of `expect` is one of: `alert` with `first_step`, `ends` or `at`; `at` with "
          "`only`; `never`; `never_severity`");
    }
    return e;
  }

  static void CheckStep(const yaml::YamlNode& node, const Expectation& e,
                        const RuleTestCase& test) {
    if (test.attempts.empty() || !node.is_scalar()) return;
    for (const RuleTestCase::Attempt& attempt : test.attempts) {
      if (e.attempt.has_value() && attempt.start.number != *e.attempt) continue;
      const auto has = [&e](const model::ClosedStep& step) { return step.row.step == e.from; };
      if (std::any_of(attempt.steps.begin(), attempt.steps.end(), has)) return;
    }
    node.Error(absl::StrCat("step ", e.from, " never closes in this test"));
  }

  const std::string file_;
  const std::string directory_;
  yaml::YamlDocument document_;
  std::vector<std::string> alerts_;
  int64_t steps_ = 0;
  size_t samples_ = 0;
};

}  // namespace

absl::StatusOr<RuleTestFile> ParseRuleTests(const std::string& file, absl::string_view text,
                                            const std::string& directory) {
  return FileParser(file, text, directory).Parse();
}

}  // namespace foreshock::backtest
