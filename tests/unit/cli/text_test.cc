// How the CLI writes: values, tables, step ranges, alerts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/alert_block.h"
#include "client/cli/export_rows.h"
#include "client/cli/format.h"
#include "client/cli/step_range.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "tests/support/status_matchers.h"

namespace foreshock::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Terminal kPlain(/*is_tty=*/false, /*color=*/false, /*columns=*/80);
const Terminal kColored(/*is_tty=*/true, /*color=*/true, /*columns=*/80);

TEST(FormatTest, NumbersInARowAreARange) {
  EXPECT_EQ(FormatRanges({}), "");
  EXPECT_EQ(FormatRanges({2}), "2");
  EXPECT_EQ(FormatRanges({0, 1}), "0 1");
  EXPECT_EQ(FormatRanges({0, 2, 9, 10, 11}), "0 2 9-11");
}

TEST(FormatTest, ValuesHaveFourSignificantDigits) {
  const struct {
    double value;
    const char* text;
  } kCases[] = {{0, "0"},
                {1499, "1499"},
                {-3, "-3"},
                {0.71344, "0.7134"},
                {12.3456, "12.35"},
                {123.456, "123.5"},
                {12345.6, "12346"},
                {0.00012345, "1.234e-04"},
                {2.5e7 + 0.5, "2.500e+07"},
                {-0.5, "-0.5000"},
                {9.9996, "10.000"},
                {1e300, "1.000e+300"}};
  for (const auto& c : kCases) EXPECT_EQ(FormatValue(c.value), c.text) << c.value;
}

TEST(FormatTest, CountsAndDurationsAreGroupedAndNameTheirUnit) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1234567), "1 234 567");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(840)), "0.8 s");
  EXPECT_EQ(ShortDuration(absl::Seconds(61)), "61 s");
  EXPECT_EQ(ShortDuration(absl::Minutes(192)), "3 h 12 min");
  EXPECT_EQ(ShortDuration(absl::Hours(50)), "2 d 2 h");
  EXPECT_EQ(Plural(1, "alert"), "1 alert");
  EXPECT_EQ(Plural(0, "alert"), "0 alerts");
}

TEST(FormatTest, WhereNamesLayerAndUnit) {
  v1::Series series;
  EXPECT_EQ(FormatWhere(series), "whole run");
  series.set_layer(0);
  EXPECT_EQ(FormatWhere(series), "layer 0");
  series.set_unit(v1::UNIT_HEAD);
  series.set_unit_id(3);
  EXPECT_EQ(FormatWhere(series), "layer 0, head 3");
  v1::Alert alert;
  EXPECT_EQ(FormatWhere(alert), "whole run");
  alert.add_layers(0);
  alert.add_layers(2);
  EXPECT_EQ(FormatWhere(alert), "layers 0, 2");
  alert.set_all_layers(true);
  alert.set_rank(5);
  EXPECT_EQ(FormatWhere(alert), "all layers, rank 5");
}

TEST(FormatTest, FlagsAreWordsAndUnknownOnesNumbers) {
  v1::Point point;
  EXPECT_EQ(FormatFlags(point.flags()), "");
  point.add_flags(v1::QUALITY_FLAG_GRID);
  point.add_flags(v1::QUALITY_FLAG_FEW_TOKENS);
  point.add_flags(static_cast<v1::QualityFlag>(99));
  EXPECT_EQ(FormatFlags(point.flags()), "grid, few_tokens, 99");
}

TEST(ExportRowsTest, CsvQuotesWhatItMustAndKeepsEveryBit) {
  v1::QueryPointsResponse answer;
  answer.mutable_series()->set_run("a \"b\", c");
  answer.mutable_series()->set_indicator("tensor.norm");
  answer.mutable_series()->set_layer(3);
  answer.mutable_series()->set_unit(v1::UNIT_TENSOR);
  answer.mutable_series()->set_unit_name("w,1");
  v1::Point* point = answer.add_points();
  point->set_step(7);
  point->set_attempt(2);
  point->set_value(0.1f);
  point->add_flags(v1::QUALITY_FLAG_GRID);
  point->add_flags(v1::QUALITY_FLAG_LATE);
  answer.add_points()->set_value(-5e-324);
  std::string text(ExportHeader(ExportFormat::kCsv));
  AppendRows(answer, ExportFormat::kCsv, &text);
  EXPECT_EQ(text,
            "run,attempt,step,indicator,layer,unit,unit_id,unit_name,value,flags\n"
            "\"a \"\"b\"\", c\",2,7,tensor.norm,3,tensor,0,\"w,1\",0.10000000149011612,grid|late\n"
            "\"a \"\"b\"\", c\",0,0,tensor.norm,3,tensor,0,\"w,1\",-5e-324,\n");
}

TEST(ExportRowsTest, JsonlHasAnObjectALine) {
  v1::QueryPointsResponse answer;
  answer.mutable_series()->set_run("exp\n1");
  answer.mutable_series()->set_indicator("train.loss");
  answer.mutable_series()->set_unit(v1::UNIT_NONE);
  answer.add_points()->set_value(2.5);
  EXPECT_EQ(ExportHeader(ExportFormat::kJsonl), "");
  std::string text;
  AppendRows(answer, ExportFormat::kJsonl, &text);
  EXPECT_EQ(text,
            "{\"run\":\"exp\\n1\",\"attempt\":0,\"step\":0,\"indicator\":\"train.loss\","
            "\"unit\":\"none\",\"unit_id\":0,\"unit_name\":\"\",\"value\":2.5,\"flags\":\"\"}\n");
}

TEST(FormatTest, SparklineRisesWithTheValues) {
  EXPECT_EQ(Sparkline({}, 10), "");
  EXPECT_EQ(Sparkline({1, 1, 1}, 10), "▄▄▄");
  EXPECT_EQ(Sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(DisplayWidth(Sparkline(std::vector<double>(1000, 2.0), 60)), 60u);
}

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"run"}, {"last step", Align::kRight}});
  table.AddRow({"é-run", "7"});
  table.AddRow({"x", "1499"});
  EXPECT_EQ(table.Render(kPlain),
            "RUN    LAST STEP\n"
            "é-run          7\n"
            "x           1499\n");
}

TEST(TableTest, PaintDoesNotMoveColumns) {
  Table table({{"a"}, {"b"}});
  table.AddRow({kColored.Paint(Style::kRed, "red"), "x"});
  table.AddRow({"plain", "y"});
  EXPECT_THAT(kColored.Encode(table.Render(kColored)),
              HasSubstr("\033[31mred\033[0m    x\nplain  y\n"));
}

TEST(TableTest, OnATerminalTheWidestTextIsCut) {
  const Terminal narrow(/*is_tty=*/true, /*color=*/false, /*columns=*/30);
  Table table({{"run"}, {"steps", Align::kRight}, {"fault"}});
  table.AddRow({std::string(256, 'x'), "123456789", "low_precision"});
  EXPECT_EQ(table.Render(narrow),
            "RUN           STEPS  FAULT\n"
            "xxxxxxx…  123456789  low_prec…\n");
  EXPECT_THAT(table.Render(kPlain), HasSubstr(std::string(256, 'x')));  // a pipe
}

TEST(TableTest, ACellIsOneLineWhateverIsInIt) {
  Table table({{"run"}, {"state"}});
  table.AddRow({"a\ncritical  firing", "live"});
  EXPECT_EQ(table.Render(kPlain),
            "RUN                  STATE\n"
            "a\\ncritical  firing  live\n");
}

TEST(StepRangeTest, EitherEndMayBeMissing) {
  const struct {
    const char* text;
    std::optional<int64_t> first, last;
  } kGood[] = {{"3:9", 3, 9},           {"3:", 3, std::nullopt},
               {":9", std::nullopt, 9}, {":", std::nullopt, std::nullopt},
               {"420", 420, 420},       {"0:0", 0, 0}};
  for (const auto& c : kGood) {
    const auto range = ParseSteps(c.text);
    ASSERT_TRUE(range.ok()) << c.text;
    EXPECT_EQ(range->first, c.first) << c.text;
    EXPECT_EQ(range->last, c.last) << c.text;
  }
}

TEST(StepRangeTest, WhatIsNoRangeIsRefusedWithWhatIsAllowed) {
  for (const char* text : {"", "9:3", "-1:3", "a:b", "1:2:3", "1.5", "99999999999999999999"}) {
    const auto range = ParseSteps(text);
    ASSERT_FALSE(range.ok()) << text;
    EXPECT_THAT(std::string(range.status().message()), HasSubstr("FIRST:LAST")) << text;
  }
}

v1::Alert SomeAlert() {
  v1::Alert alert;
  alert.set_run("exp-42");
  alert.set_attempt(2);
  alert.set_rule("QkEntropyFalls");
  alert.set_state(v1::ALERT_STATE_FIRING);
  alert.set_severity("critical");
  alert.set_fault("low_precision_attention");
  alert.set_indicator("attn.delta2.entropy_ratio_l1");
  alert.add_layers(1);
  alert.set_value(0.60);
  alert.set_baseline(0.80);
  alert.set_pending_step(440);
  alert.set_firing_step(460);
  alert.set_last_healthy_step(430);
  alert.set_checkpoint("step-400");
  alert.set_summary("The attention update loses directions.");
  return alert;
}

TEST(AlertBlockTest, SaysWhatWhereSinceWhenAgainstWhatAndWhatToDo) {
  v1::Alert alert = SomeAlert();
  v1::Evidence* first = alert.add_evidence();
  first->set_step(440);
  first->set_supports(true);
  first->set_rule("EntropyLow");
  first->add_layers(1);
  first->set_text("since step 440, value 0.6, baseline 0.8");
  v1::Evidence* second = alert.add_evidence();
  second->set_rule("GradientSpike");
  second->set_step(450);
  for (const char* rule : {"LearningRateRises", "RouterMoves"}) {
    v1::Evidence* unmoved = alert.add_evidence();
    unmoved->set_rule(rule);
    unmoved->set_supports(true);
    unmoved->set_text("did not move");
  }
  const std::string block = AlertBlock(alert, kPlain);
  for (const char* part :
       {"CRITICAL  low_precision_attention  firing", "QkEntropyFalls", "exp-42, attempt 2",
        "layer 1", "began at step 440, fired at step 460",
        "attn.delta2.entropy_ratio_l1 = 0.6000, baseline 0.8000 (-25 %)",
        "step 430; roll back to checkpoint step-400",
        "evidence   since step 440: EntropyLow, layer 1: value 0.6, baseline 0.8",
        "           since step 450: against: GradientSpike\n",
        "for it: no move of LearningRateRises, RouterMoves",
        "The attention update loses directions."}) {
    EXPECT_THAT(block, HasSubstr(part));
  }
  EXPECT_THAT(block, Not(HasSubstr("\033")));
}

TEST(AlertBlockTest, InfoIsEvidenceAndAdvisesNoRollBack) {
  v1::Alert alert = SomeAlert();
  alert.set_severity("info");
  v1::Evidence* evidence = alert.add_evidence();
  evidence->set_step(440);
  evidence->set_rule("EntropyLow");
  evidence->add_layers(1);
  evidence->add_layers(2);
  const std::string block = AlertBlock(alert, kPlain);
  EXPECT_THAT(block, AllOf(HasSubstr("step 430\n"), Not(HasSubstr("roll back"))));
  EXPECT_THAT(block, HasSubstr("EntropyLow, layers 1, 2"));
}

TEST(AlertBlockTest, LeavesOutWhatIsNotKnownAndWrapsLongText) {
  v1::Alert alert = SomeAlert();
  alert.clear_baseline();
  alert.clear_last_healthy_step();
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  alert.set_description(words);
  const std::string block = AlertBlock(alert, kPlain);
  EXPECT_THAT(block, AllOf(Not(HasSubstr("baseline")), Not(HasSubstr("healthy"))));
  size_t begin = 0;
  while (begin < block.size()) {
    const size_t end = block.find('\n', begin);
    EXPECT_LE(DisplayWidth(block.substr(begin, end - begin)), 80u);
    begin = end + 1;
  }
}

TEST(TerminalTest, PaintsOnlyWhereColoursAreShown) {
  EXPECT_EQ(kPlain.Paint(Style::kRed, "x"), "x");
  EXPECT_EQ(kColored.Encode(kColored.Paint(Style::kRed, "x")), "\033[31mx\033[0m");
  EXPECT_EQ(kColored.Encode(kColored.Paint(Style::kPlain, "x")), "x");
  EXPECT_EQ(DisplayWidth(kColored.Paint(Style::kRed, "äx")), 2u);
  EXPECT_EQ(kPlain.Encode(Painted(Style::kRed, "x")), "x");
}

TEST(TerminalTest, WithoutUtf8OurSymbolsAreLettersAndTheRestIsWrittenOut) {
  const Terminal ascii(/*is_tty=*/true, /*color=*/true, /*columns=*/80, /*utf8=*/false);
  EXPECT_EQ(ascii.Encode(Painted(Style::kGreen, "✓")), "\033[32m+\033[0m");
  EXPECT_EQ(ascii.Encode("▁▂▃▄▅▆▇█ é"), "_.,-=+*# \\u00e9");
  EXPECT_TRUE(kPlain.utf8());
}

TEST(PrintableTest, WhatCouldMoveHideOrReorderIsWrittenOut) {
  const struct {
    const char* text;
    const char* shown;
  } kCases[] = {
      {"exp-42", "exp-42"},
      {"Prüfung 日本 ωμέγα עברית", "Prüfung 日本 ωμέγα עברית"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\033[2J\033]0;x\007", "\\x1b[2J\\x1b]0;x\\x07"},
      {"a\x7f"
       "b",
       "a\\x7fb"},
      {"\u009b31m", "\\u009b31m"},  // the one-character form of ESC [
      {"a\u202e"
       "b\u2066c\u200fd",
       "a\\u202eb\\u2066c\\u200fd"},  // bidirectional controls
      {"a\u200b\ufeff"
       "b",
       "a\\u200b\\ufeffb"},  // nothing to see
      {"a\u2028"
       "b\u2029"
       "c",
       "a\\u2028b\\u2029c"},                // line and paragraph separators
      {"\U000e0041", "\\U000e0041"},        // a tag
      {"\ue000", "\\ue000"},                // private use
      {"a\xc3", "a\\xc3"},                  // no UTF-8
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},  // a surrogate
      {"e\u0301", "e\u0301"},
      {"e\u0301\u0301\u0301\u0301\u0301", "e\u0301\u0301\u0301\u0301\\u0301"},
      {"\xfe"
       "z\xff",
       "\\xfez\xff"},  // no style has that letter
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Printable(c.text), c.shown);
    EXPECT_EQ(Printable(Printable(c.text)), c.shown) << "twice";
  }
  EXPECT_EQ(PrintableLines("a\nb\033\n"), "a\nb\\x1b\n");
  const std::string painted = Painted(Style::kRed, "x");
  EXPECT_EQ(Printable(painted), painted);
}

TEST(PrintableTest, WhateverTheBytes) {
  std::mt19937 random(20'261'130);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (int length = static_cast<int>(random() % 24); length > 0; --length) {
      // Mostly what is near the rules: lead bytes, marks, format characters, our own two bytes.
      static const std::vector<std::string> kParts = {
          "a", "\xc3", "\u0301", "\u202e", "日", "\xfe", "b", "\xff", "\033", "\n", "\x80", "\xe2"};
      text += random() % 4 == 0 ? std::string(1, static_cast<char>(random() % 256))
                                : kParts[random() % kParts.size()];
    }
    const std::string shown = Printable(text);
    ASSERT_EQ(Printable(shown), shown) << testing::PrintToString(text);
    const size_t columns = random() % 12;
    ASSERT_LE(DisplayWidth(Fit(shown, columns)), columns) << testing::PrintToString(text);
    for (const std::string& line : Wrap(text, columns + 2)) {
      ASSERT_LE(DisplayWidth(line), columns + 2) << testing::PrintToString(text);
    }
    for (const char c : kPlain.Encode(shown)) {
      const auto byte = static_cast<unsigned char>(c);
      ASSERT_TRUE(byte >= 0x20 && byte != 0x7f && byte < 0xf8) << testing::PrintToString(text);
    }
  }
}

TEST(WidthTest, WideCharactersTakeTwoColumnsAndMarksNone) {
  EXPECT_EQ(DisplayWidth(""), 0u);
  EXPECT_EQ(DisplayWidth("日本"), 4u);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1u);
  EXPECT_EQ(DisplayWidth(Painted(Style::kRed, "日")), 2u);
  for (const char* symbol : {"▁", "█", "┃", "│", "┊", "─", "▲", "▸", "✓", "✗", "…", "⣿", "×"}) {
    EXPECT_EQ(DisplayWidth(symbol), 1u) << symbol;
  }
}

TEST(FitTest, WhatIsCutEndsInAnEllipsis) {
  EXPECT_EQ(Fit("name", 4), "name");
  EXPECT_EQ(Fit("names", 4), "nam…");
  EXPECT_EQ(Fit("日本語", 4), "日…");  // two columns do not fit into one
  EXPECT_EQ(Fit("x", 0), "");
  EXPECT_EQ(PadRight("日本語", 6), "日本語");
  EXPECT_EQ(PadRight("日本語", 4), "日… ");
  EXPECT_EQ(PadLeft("ab", 4), "  ab");
  EXPECT_EQ(kColored.Encode(Fit(absl::StrCat(Painted(Style::kRed, "red"), "plain"), 3)),
            "\033[31mre…\033[0m");
}

TEST(WrapTest, ALongWordIsBroken) {
  EXPECT_THAT(Wrap("one two  three\nfour", 8), ElementsAre("one two", "three", "four"));
  EXPECT_THAT(Wrap("abcdefgh", 3), ElementsAre("abc", "def", "gh"));
  EXPECT_THAT(Wrap("a\x01", 9), ElementsAre("a\\x01"));
  EXPECT_THAT(Wrap("", 9), ElementsAre());
}

}  // namespace
}  // namespace foreshock::cli
