// foreshock import: what the three readers make of a log, which scalar a column is, and the
// capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/log_capture.h"
#include "client/cli/log_reader.h"
#include "client/cli/scalar_names.h"
#include "daemon/capture/reader.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// "step: column=value column=value", a row each.
struct ReadLog {
  std::vector<std::string> rows;
  std::vector<LogRow> raw;
  LogNotes notes;
  std::string error;
  std::string format;
};

class ImportTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(directory_.path(), "/", name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  ReadLog Read(const std::string& name, const std::string& text, const LogOptions& options = {}) {
    ReadLog log;
    auto reader = LogReader::Open(Write(name, text), options, &log.notes);
    if (!reader.ok()) {
      log.error = std::string(reader.status().message());
      return log;
    }
    log.format = (*reader)->format_name();
    LogRow row;
    while (true) {
      const absl::StatusOr<bool> more = (*reader)->Next(&row);
      if (!more.ok()) log.error = std::string(more.status().message());
      if (!more.ok() || !*more) break;
      std::vector<std::string> values;
      for (const LogValue& value : row.values) {
        values.push_back(absl::StrCat(value.column, "=", value.value));
      }
      log.rows.push_back(absl::StrCat(row.step, ": ", absl::StrJoin(values, " ")));
      log.raw.push_back(row);
    }
    return log;
  }

  support::TempDir directory_;
};

TEST_F(ImportTest, MegatronLinesOfOldAndNewFormAreRows) {
  const ReadLog log = Read(
      "train.log",
      "building GPT model ...\n"
      " iteration      100/  320000 | elapsed time per iteration (ms): 525.1 | learning rate "
      "9.990E-05 | lm loss 5.682E+00 | loss scale 131072.0 |\n"
      "0:  iteration      200/    5000 | consumed samples:        25600 | lm loss: 2.5E+00 | grad "
      "norm: 1.25 | number of skipped iterations:   3 | number of nan iterations:   0 |\r\n"
      " [2026-03-01 14:02:31] iteration      300/    5000 | throughput per GPU (TFLOP/s/GPU): 400.5"
      " | lm loss: nan | grad norm: inf | ETA: 3 days |\n"
      " validation loss at iteration 300 | lm loss value: 2.1E+00 | lm loss PPL: 8.1E+00 | \n");
  EXPECT_EQ(log.error, "");
  EXPECT_EQ(log.format, "Megatron-LM log");
  EXPECT_THAT(log.rows,
              ElementsAre("100: elapsed time per iteration (ms)=525.1 learning rate=9.99e-05 "
                          "lm loss=5.682 loss scale=131072",
                          "200: consumed samples=25600 lm loss=2.5 grad norm=1.25 "
                          "number of skipped iterations=3 number of nan iterations=0",
                          "300: throughput per GPU (TFLOP/s/GPU)=400.5 lm loss=nan grad norm=inf"));
  EXPECT_EQ(log.raw[0].time_unix_ns, 0);
  EXPECT_EQ(log.raw[1].skipped_steps, 3);
  EXPECT_THAT(log.raw[1].where, EndsWith("train.log:3:5"));
  EXPECT_EQ(log.raw[2].time_unix_ns, 1772373751'000'000'000);
  EXPECT_EQ(log.notes.other_lines, 2u);
  EXPECT_EQ(log.notes.not_understood, 0u);
  EXPECT_THAT(log.notes.skipped, ElementsAre(Pair("ETA", "`3 days` is no number")));
}

TEST_F(ImportTest, MegatronLineThatIsCutLosesItsLastValueOnly) {
  const std::string line = " iteration 7/ 9 | lm loss: 2.5 | grad norm: 1.25 |";
  for (size_t size = 0; size <= line.size(); ++size) {
    const ReadLog log = Read("cut.log", line.substr(0, size));
    EXPECT_EQ(log.error, "");
    const bool loss = size >= line.find("| grad") + 1;
    const bool all = size == line.size();
    if (size < line.find('|') + 1) {
      EXPECT_THAT(log.rows, IsEmpty()) << size;
    } else {
      EXPECT_THAT(log.rows, ElementsAre(absl::StrCat("7: ", loss ? "lm loss=2.5" : "",
                                                     all ? " grad norm=1.25" : "")))
          << size;
    }
  }
  EXPECT_THAT(Read("cut.log", line.substr(0, 44)).notes.first_not_understood,
              AllOf(HasSubstr("cut.log:1:34: "), HasSubstr("must end with `|`")));
  EXPECT_THAT(Read("cut.log", " iteration 99999999999999999999/ 9 | lm loss: 1 |")
                  .notes.first_not_understood,
              AllOf(HasSubstr("cut.log:1:12: "), HasSubstr("up to 2^53")));
}

TEST_F(ImportTest, JsonlObjectsAreFlattenedAndNonFiniteWordsRead) {
  const ReadLog log = Read(
      "m.jsonl",
      "{\"config\": {\"lr\": 1}, \"name\": \"exp\"}\n"
      "{\"step\": 1, \"_timestamp\": 1772373751.25, \"train\": {\"loss\": 2.5, \"ok\": true}}\n"
      "\n"
      "{\"loss\": NaN, \"a\": -Infinity, \"b\": \"inf\", \"text\": \"NaN \\\" Infinity\", "
      "\"step\": "
      "2.0}\n"
      "{\"step\": 3, \"none\": null, \"list\": [1, 2], \"digits\": \"12\"}\r\n");
  EXPECT_EQ(log.error, "");
  EXPECT_EQ(log.format, "JSONL");
  EXPECT_THAT(log.rows, ElementsAre("1: train/loss=2.5 train/ok=1", "2: loss=nan a=-inf b=inf",
                                    "3: digits=12"));
  EXPECT_EQ(log.raw[0].time_unix_ns, 1772373751'250'000'000);
  EXPECT_EQ(log.notes.not_understood, 1u);
  EXPECT_THAT(log.notes.first_not_understood,
              AllOf(HasSubstr("m.jsonl:1:1: there is no step"), HasSubstr("`config/lr`, `name`"),
                    HasSubstr("--step-key")));
  EXPECT_THAT(log.notes.skipped, ElementsAre(Pair("list", "an array; allowed are numbers"),
                                             Pair("text", "`NaN \" Infinity` is no number")));
}

TEST_F(ImportTest, AJsonDocumentIsReadRowByRowWithItsNonFiniteWords) {
  const ReadLog log = Read("trainer_state.json",
                           "{\n \"best_metric\": null,\n \"log_history\": [\n"
                           "  {\"step\": 10, \"loss\": 2.5, \"epoch\": 0.1},\n"
                           "  {\"step\": 10, \"eval_loss\": 2.25},\n"
                           "  {\"step\": 20, \"loss\": NaN},\n"
                           "  {\"loss\": 1},\n"
                           "  {\"step\": 20, \"train_runtime\": 12.5, \"train_loss\": 2.0}]}\n");
  EXPECT_EQ(log.error, "");
  EXPECT_EQ(log.format, "JSON");
  EXPECT_THAT(log.rows, ElementsAre("10: loss=2.5 epoch=0.1 eval_loss=2.25", "20: loss=nan"));
  EXPECT_EQ(log.notes.not_understood, 1u);
  EXPECT_THAT(log.notes.first_not_understood,
              AllOf(HasSubstr("trainer_state.json: row 4: "), HasSubstr("no step")));
  EXPECT_THAT(Read("list.json", "[{\"step\": 1, \"loss\": 3}]").rows, ElementsAre("1: loss=3"));
  EXPECT_THAT(
      Read("config.json", "{\"layers\": 3}").error,
      AllOf(HasSubstr("config.json: a JSON document without rows"), HasSubstr("log_history")));
  EXPECT_THAT(Read("cut.json", "{\"log_history\": [{\"step\": 1").error,
              HasSubstr("cut.json: no JSON: "));
}

TEST_F(ImportTest, AStepMayBeWrittenAsOneOfMany) {
  const ReadLog log = Read("m.jsonl",
                           "{\"current_steps\": \"10/500\", \"loss\": \"1.25\"}\n"
                           "{\"current_steps\": \"a/500\", \"loss\": 1}\n");
  EXPECT_THAT(log.rows, ElementsAre("10: loss=1.25"));
  EXPECT_THAT(log.notes.first_not_understood, HasSubstr("`a/500`"));
}

TEST_F(ImportTest, JsonlLinesThatAreNoRowAreNamedByPlaceAndPassedOver) {
  const struct {
    const char* line;
    const char* where;
    const char* what;
  } kCases[] = {
      {"{\"step\": 2, \"loss\": }", ":2:21: ", "allowed is one object a line"},
      {"{\"a\": NaN, \"loss\": }", ":2:20: ", "allowed is one object a line"},
      {"[1, 2]", ":2:1: ", "the line is array; allowed is one object a line"},
      {"{\"loss\": 1}", ":2:1: ", "no `step`"},
      {"{\"loss\": 1, \"step\": 1.5}", ":2:13: ", "is 1.5; allowed is a whole number"},
      {"{\"step\": -1}", ":2:2: ", "is -1; allowed is a whole number"},
      {"{\"step\": NaN}", ":2:2: ", "is nan; allowed"},
      {"{\"step\": null}", ":2:2: ", "is empty; allowed"},
      {"{\"step\": 1e16}", ":2:2: ", "allowed is a whole number from 0 to 2^53"},
      {"{\"step\": 1e999}", ":2:1: ", "1e999"},
      {"\xff", ":2:1: ", "no JSON"},
  };
  for (const auto& c : kCases) {
    const ReadLog log = Read("m.jsonl", absl::StrCat("{\"step\": 1, \"loss\": 1}\n", c.line,
                                                     "\n{\"step\": 3, \"loss\": 3}"));
    EXPECT_EQ(log.error, "") << c.line;
    EXPECT_THAT(log.rows, ElementsAre("1: loss=1", "3: loss=3")) << c.line;
    EXPECT_EQ(log.notes.not_understood, 1u) << c.line;
    EXPECT_THAT(log.notes.first_not_understood, AllOf(HasSubstr(c.where), HasSubstr(c.what)))
        << c.line;
  }
}

TEST_F(ImportTest, JsonlNestingIsLimited) {
  std::string line = "1";
  for (int i = 0; i < 20; ++i) line = absl::StrCat("{\"a\": ", line, "}");
  const ReadLog log = Read("m.jsonl", absl::StrCat("{\"step\": 1, \"b\": 2, \"n\": ", line, "}"));
  EXPECT_THAT(log.rows, ElementsAre("1: b=2"));
  ASSERT_THAT(log.notes.skipped, SizeIs(1));
  EXPECT_EQ(log.notes.skipped.begin()->second, "an object more than 16 deep");
}

TEST_F(ImportTest, CsvCellsAreReadAsRfc4180HasThem) {
  const ReadLog log = Read("c.csv",
                           "\xEF\xBB\xBF,Step,\"train, loss\",\"say \"\"hi\"\"\",note,Step\r\n"
                           "0,1,2.5,1e-3,\"two\nlines\",7\r\n"
                           "\r\n"
                           "1,2, nan ,,\"\",7\r\n"
                           "2,3.0,-inf,\"4\",,7");
  EXPECT_EQ(log.error, "");
  EXPECT_EQ(log.format, "CSV");
  EXPECT_THAT(log.rows, ElementsAre("1: train, loss=2.5 say \"hi\"=0.001", "2: train, loss=nan",
                                    "3: train, loss=-inf say \"hi\"=4"));
  EXPECT_THAT(log.raw[1].where, EndsWith("c.csv:5:1"));
  EXPECT_EQ(log.notes.not_understood, 0u);
  EXPECT_THAT(log.notes.skipped, ElementsAre(Pair("Step", HasSubstr("second column")),
                                             Pair("note", HasSubstr("two"))));
}

TEST_F(ImportTest, CsvRowsThatAreNoneAreNamedByPlaceAndPassedOver) {
  const struct {
    const char* row;
    const char* where;
    const char* what;
  } kCases[] = {{"2", ":3:1: ", "the row has 1 cells, the header 2"},
                {"2,3,4", ":3:1: ", "the row has 3 cells, the header 2"},
                {"3,x2", ":3:3: ", "the step `step` is `x2`"},
                {"3,", ":3:3: ", "the step `step` is empty"}};
  for (const auto& c : kCases) {
    const ReadLog log = Read("c.csv", absl::StrCat("loss,step\n1,1\n", c.row, "\n3,3\n"));
    EXPECT_THAT(log.rows, ElementsAre("1: loss=1", "3: loss=3")) << c.row;
    EXPECT_THAT(log.notes.first_not_understood, AllOf(HasSubstr(c.where), HasSubstr(c.what)))
        << c.row;
  }
}

TEST_F(ImportTest, WhatCannotBeReadAnyFurtherIsAnErrorThatSaysWhere) {
  const std::string wide(LogLines::kLineBytesMax + 1, 'x');
  const struct {
    std::string name, text;
    const char* what;
  } kCases[] = {
      {"a.csv", "", "a.csv: empty; the first row must name the columns"},
      {"a.csv", "loss,lr\n1,2\n", "a.csv:1:1: there is no step: none of step, global_step"},
      {"a.csv", "step,loss\n1,2\n2,a\"b\n", "a.csv:3:4: "},
      {"a.csv", "step,loss\n1,2\n2,\"ab\n3,4\n", "a.csv:3:1: a quote in the row that begins here"},
      {"a.csv", "step,loss\n1," + wide, "a.csv:2:1: the row is longer than 1048576 bytes"},
      {"events.out.tfevents.1", "x", "a TensorBoard event file; export its scalars"},
      {"run.log", "FSCAP\r\n\x01", "a capture already"},
      {"run.log", std::string("a\0b", 3), "no text; allowed are"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Read(c.name, c.text).error, HasSubstr(c.what)) << c.name << c.text.substr(0, 40);
  }
  LogNotes notes;
  EXPECT_EQ(LogReader::Open("/nonexistent.csv", {}, &notes).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ImportTest, EveryPrefixOfAFileIsReadOrRefusedWithAPlace) {
  const std::string files[][2] = {
      {"p.jsonl",
       "{\"step\": 1, \"loss\": NaN, \"o\": {\"a\": [1]}}\n{\"step\": 2, \"l\": \"\\\"\"}"},
      {"p.csv", "step,\"a\"\"b\"\r\n1,\"2\n\"\r\n2,3"},
      {"p.log", "[2026-03-01 14:02:31] iteration 1/ 2 | a: 1 | b 2 |\n iteration 2/ 2 | a: 3 |"}};
  for (const auto& [name, text] : files) {
    for (size_t size = 0; size <= text.size(); ++size) {
      const ReadLog log = Read(name, text.substr(0, size));
      if (!log.error.empty()) {
        EXPECT_THAT(log.error, HasSubstr(absl::StrCat(name, ":"))) << size;
      }
      EXPECT_LE(log.rows.size(), 2u);
    }
  }
}

TEST_F(ImportTest, FormatIsToldByContentUnlessSaid) {
  EXPECT_EQ(Read("a.txt", "\n {\"step\": 1}").format, "JSONL");
  EXPECT_EQ(Read("a.txt", "[{\"step\": 1}]").format, "JSON");
  EXPECT_EQ(Read("a.txt", "loss, step\n1,2").format, "CSV");
  EXPECT_EQ(Read("a.txt", "loss,n\n1,2", {.step_key = "n"}).format, "CSV");
  EXPECT_EQ(Read("a.txt", "loss,lr\n1,2").format, "Megatron-LM log");
  EXPECT_EQ(Read("a.txt", "").format, "Megatron-LM log");
  EXPECT_EQ(Read("a.txt", "step\n1", {.format = LogFormat::kCsv}).format, "CSV");
}

TEST_F(ImportTest, StepAndTimeKeysCanBeNamed) {
  const ReadLog log = Read("a.csv", "n,step,when,loss\n5,1,2026-03-01T14:02:31Z,2\n6,1,12,3\n",
                           {.step_key = "n", .time_key = "when"});
  EXPECT_THAT(log.rows, ElementsAre("5: step=1 loss=2", "6: step=1 loss=3"));
  EXPECT_EQ(log.raw[0].time_unix_ns, 1772373751'000'000'000);
  EXPECT_EQ(log.raw[1].time_unix_ns, 0);
  EXPECT_THAT(log.notes.skipped, ElementsAre(Pair("when", HasSubstr("12 is no time: seconds"))));
}

TEST(ScalarNamesTest, UsualColumnsHaveCanonicalNames) {
  const struct {
    const char* column;
    const char* name;
  } kCases[] = {{"lm loss", "loss"},
                {"train/loss", "loss"},
                {"train_loss", "loss"},
                {"loss/train", "loss"},
                {"lm-loss-training/lm loss", "loss"},
                {"learning rate", "lr"},
                {"train/learning_rate", "lr"},
                {"grad-norm", "grad_norm"},
                {"train/grad_norm", "grad_norm"},
                {"loss scale", "loss_scale"},
                {"load_balancing_loss", "aux_loss"},
                {"critic/rewards/mean", "reward_mean"},
                {"number of nan iterations", "nan_iterations"},
                {"eval/loss", "eval_loss"},
                {"train/epoch", "train_epoch"},
                {"elapsed time per iteration (ms)", "elapsed_time_per_iteration_ms"}};
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(ScalarNames names, ScalarNames::Create({}));
    LogNotes notes;
    const v1::ScalarDeclaration* scalar = names.Find(c.column, &notes);
    ASSERT_NE(scalar, nullptr) << c.column;
    EXPECT_EQ(scalar->name(), c.name) << c.column;
  }
}

TEST(ScalarNamesTest, EveryAliasIsSpelledAsColumnsAreLookedUp) {
  for (const ColumnAlias& alias : ColumnAliases()) {
    EXPECT_EQ(SanitisedName(alias.column), alias.column);
    EXPECT_EQ(SanitisedName(alias.scalar), alias.scalar);
  }
}

TEST(ScalarNamesTest, MapWinsAndWhatIsLeftOutSaysWhy) {
  ASSERT_OK_AND_ASSIGN(ScalarNames names, ScalarNames::Create({"Value=loss", "a=b=x", "gone=y"}));
  LogNotes notes;
  EXPECT_EQ(names.Find("loss", &notes), nullptr);
  EXPECT_EQ(names.Find("Value", &notes)->name(), "loss");
  EXPECT_EQ(names.Find("a=b", &notes)->name(), "x");
  EXPECT_EQ(names.Find("lr", &notes)->name(), "lr");
  EXPECT_EQ(names.Find("learning rate", &notes), nullptr);
  EXPECT_EQ(names.Find("100%", &notes), nullptr);
  EXPECT_EQ(names.Find("学习率", &notes), nullptr);
  EXPECT_EQ(names.Find("step_seconds", &notes), nullptr);
  EXPECT_EQ(names.Find(std::string(200, 'n'), &notes), nullptr);
  EXPECT_THAT(names.NotFound(), ElementsAre("gone"));
  EXPECT_THAT(notes.skipped["loss"], HasSubstr("`loss` is `Value`, by --map"));
  EXPECT_THAT(notes.skipped["learning rate"], HasSubstr("`lr` is `lr` already"));
  EXPECT_THAT(notes.skipped["100%"], HasSubstr("[a-z][a-z0-9_]*"));
  EXPECT_THAT(notes.skipped["学习率"], HasSubstr("--map COLUMN=NAME"));
  EXPECT_THAT(notes.skipped["step_seconds"], HasSubstr("computes train.step_seconds itself"));
  EXPECT_THAT(notes.skipped[std::string(200, 'n')], HasSubstr("at most 128 bytes"));
  for (int i = 0; i < 2000; ++i) names.Find(absl::StrCat("s", i), &notes);
  EXPECT_THAT(names.found(), SizeIs(ScalarNames::kScalarsMax));
}

TEST(ScalarNamesTest, WrongMapsAreRefused) {
  const struct {
    std::vector<std::string> map;
    const char* what;
  } kCases[] = {{{"loss"}, "--map loss: allowed is COLUMN=NAME"},
                {{"=loss"}, "allowed is COLUMN=NAME"},
                {{"a="}, "[a-z][a-z0-9_]*"},
                {{"a=Loss"}, "[a-z][a-z0-9_]*"},
                {{"a=nonfinite"}, "the daemon computes"},
                {{"a=x", "a=y"}, "--map a=x is there already"},
                {{"a=x", "b=x"}, "--map a=x is there already"}};
  for (const auto& c : kCases) {
    const auto names = ScalarNames::Create(c.map);
    ASSERT_FALSE(names.ok()) << c.what;
    EXPECT_THAT(std::string(names.status().message()), HasSubstr(c.what));
  }
}

class LogCaptureTest : public ImportTest {
 protected:
  LogRow Row(int64_t step, std::vector<LogValue> values, double skipped = 0) {
    return {.step = step,
            .time_unix_ns = step * 1000,
            .skipped_steps = skipped,
            .where = absl::StrCat("log:", ++lines_, ":1"),
            .values = std::move(values)};
  }

  // The records of a capture of `rows`, as text; totals_ is filled.
  std::vector<v1::CaptureRecord> Capture(const std::vector<LogRow>& rows) {
    const std::string path = absl::StrCat(directory_.path(), "/out.fscap");
    auto writer = capture::CaptureWriter::Create(path);
    EXPECT_OK(writer.status());
    auto names = ScalarNames::Create({});
    LogNotes notes;
    LogCapture capture("exp", &*names, writer->get(), &notes);
    for (const LogRow& row : rows) EXPECT_OK(capture.Add(row));
    EXPECT_OK(capture.Finish());
    EXPECT_OK((*writer)->Commit());
    totals_ = capture.totals();
    std::vector<v1::CaptureRecord> records;
    auto reader = capture::CaptureReader::Open(path);
    EXPECT_OK(reader.status());
    for (v1::CaptureRecord record; *(*reader)->Next(&record);) records.push_back(record);
    return records;
  }

  int lines_ = 0;
  LogTotals totals_;
};

TEST_F(LogCaptureTest, AStepThatGoesBackIsANewLaunch) {
  const auto records = Capture({Row(1, {{"loss", 3}}), Row(1, {{"loss", 2.5}, {"eval", 9}}),
                                Row(2, {{"lm loss", 7}, {"loss", 2}}), Row(2, {}),
                                Row(0, {{"lr", 1}}), Row(5, {{"loss", 1}})});
  ASSERT_THAT(records, SizeIs(7));
  const v1::Hello& first = records[0].message().hello();
  EXPECT_EQ(first.run(), "exp");
  EXPECT_EQ(first.world_size(), 1u);
  EXPECT_FALSE(first.has_resume_step());
  const v1::Report& one = records[1].message().report();
  EXPECT_EQ(one.step(), 1);
  EXPECT_EQ(one.seq(), 1u);
  EXPECT_EQ(one.time_unix_ns(), 1000);
  EXPECT_TRUE(one.last_of_step());
  EXPECT_THAT(one.summaries(0).scalars().values(), ElementsAre(2.5, 9));
  EXPECT_EQ(one.summaries(0).scalars().declare(0).unit(), "nats");
  EXPECT_THAT(records[2].message().report().summaries(0).scalars().values(), ElementsAre(2));
  const v1::Hello& second = records[3].message().hello();
  EXPECT_EQ(records[3].stream(), 1u);
  EXPECT_NE(second.launch_id(), first.launch_id());
  EXPECT_EQ(second.resume_step(), 0);
  EXPECT_EQ(records[4].message().report().seq(), 1u);
  // A stream declares what it uses.
  EXPECT_EQ(records[5].message().report().summaries(0).scalars().declare(0).name(), "loss");
  EXPECT_EQ(records[6].message().goodbye().outcome(), v1::OUTCOME_FINISHED);
  EXPECT_EQ(totals_.steps, 4u);
  EXPECT_EQ(totals_.replaced, 1u);
  ASSERT_THAT(totals_.attempts, SizeIs(2));
  EXPECT_EQ(totals_.attempts[1].where, "log:5:1");
  EXPECT_EQ(totals_.attempts[1].last_step, 5);
}

TEST_F(LogCaptureTest, TheSameLogIsTheSameLaunchAndAnotherLogAnother) {
  const auto launch = [this](double loss) {
    return Capture({Row(1, {{"loss", loss}})})[0].message().hello().launch_id();
  };
  EXPECT_EQ(launch(3.5), launch(3.5));
  EXPECT_NE(launch(3.5), launch(3.25));
}

TEST_F(LogCaptureTest, NonFiniteValuesAreKeptAndSkippedStepsMarked) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto records = Capture({Row(1, {{"loss", 3}}, 1), Row(2, {{"loss", nan}}, 1),
                                Row(102, {{"loss", nan}}, 1), Row(202, {{"loss", 1}}, 100)});
  ASSERT_THAT(records, SizeIs(6));
  std::vector<bool> skipped;
  for (int i = 1; i <= 4; ++i) skipped.push_back(records[i].message().report().skipped());
  // One of a hundred steps does not excuse the row.
  EXPECT_THAT(skipped, ElementsAre(true, true, false, true));
  EXPECT_TRUE(std::isnan(records[2].message().report().summaries(0).scalars().values(0)));
  EXPECT_EQ(totals_.nonfinite, 2u);
  EXPECT_EQ(totals_.first_nonfinite, "log:2:1: loss is nan at step 2");
  EXPECT_EQ(totals_.skipped_steps, 3u);
}

TEST_F(LogCaptureTest, StepsThatGoBackAllTheTimeAreRefused) {
  auto writer = capture::CaptureWriter::Create(absl::StrCat(directory_.path(), "/out.fscap"));
  ASSERT_OK(writer.status());
  ASSERT_OK_AND_ASSIGN(ScalarNames names, ScalarNames::Create({}));
  LogNotes notes;
  LogCapture capture("exp", &names, writer->get(), &notes);
  absl::Status status;
  for (int64_t step = 2000; status.ok() && step > 0; --step) {
    status = capture.Add(Row(step, {{"loss", 1}}));
  }
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("log:1001:1: "), HasSubstr("--step-key")));
}

}  // namespace
}  // namespace foreshock::cli
