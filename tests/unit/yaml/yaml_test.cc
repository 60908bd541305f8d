// Typed reading: right values, limits, wrong values, unknown keys.
#include "daemon/yaml/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::yaml {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(YamlTest, ReadsEveryTypeFromTheirUsualForms) {
  YamlDocument document("f.yaml", R"(
text: hello world
quoted: "123"
number_as_text: 123
yes: true
no: false
int: -42
double: 1.5e-3
durations: [250ms, 30s, 5m, 1h30m, 7d, 0s, 1.5s]
sizes: [0, 4096, 512B, 64KiB, 1.5GiB, 2TiB]
list: [a, "b", c]
word: warning
map:
  inner: 1
labels: {team: infra, "odd key": x}
)");
  YamlNode root = document.root();
  EXPECT_EQ(root.Get("text").String(), "hello world");
  EXPECT_EQ(root.Get("quoted").String(), "123");
  EXPECT_EQ(root.Get("number_as_text").String(), "123");
  EXPECT_TRUE(root.Get("yes").Bool());
  EXPECT_FALSE(root.Get("no").Bool(true));
  EXPECT_EQ(root.Get("int").Int({-100, 100}), -42);
  EXPECT_EQ(root.Get("double").Double({0, 1}), 1.5e-3);
  std::vector<absl::Duration> durations;
  for (const YamlNode& item : root.Get("durations").Items()) {
    durations.push_back(item.Duration({absl::ZeroDuration(), absl::Hours(1000)}));
  }
  EXPECT_THAT(durations, ElementsAre(absl::Milliseconds(250), absl::Seconds(30), absl::Minutes(5),
                                     absl::Minutes(90), absl::Hours(7 * 24), absl::ZeroDuration(),
                                     absl::Seconds(1.5)));
  std::vector<uint64_t> sizes;
  for (const YamlNode& item : root.Get("sizes").Items()) sizes.push_back(item.Bytes({0, 1u << 31}));
  EXPECT_THAT(sizes, ElementsAre(0, 4096, 512, 65536, 1610612736u, 0));
  EXPECT_THAT(root.Get("list").Strings(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(root.Get("word").Word({"info", "warning"}), "warning");
  EXPECT_EQ(root.Get("map").Require("inner").Int({1, 1}), 1);
  std::vector<std::string> labels;
  for (const auto& [key, node] : root.Get("labels").Entries())
    labels.push_back(key + node.String());
  EXPECT_THAT(labels, ElementsAre("teaminfra", "odd keyx"));
  EXPECT_THAT(document.errors(),
              ElementsAre("f.yaml:10:39: item 6 of `sizes` is 2TiB; a size such as 512B, 64KiB, "
                          "16MiB, 2GiB or 1TiB of at most 2GiB is expected"));
}

TEST(YamlTest, AbsentValuesFallBackWithoutError) {
  YamlDocument document("f.yaml", "");
  YamlNode root = document.root();
  YamlNode store = root.Get("store");
  EXPECT_FALSE(store.present());
  EXPECT_EQ(store.Get("directory").String("/var"), "/var");
  EXPECT_EQ(store.Require("n").Int({0, 9}, 7), 7);  // an absent map requires nothing
  EXPECT_EQ(root.Get("d").Duration({}, absl::Seconds(3)), absl::Seconds(3));
  EXPECT_THAT(root.Get("items").Items(), IsEmpty());
  EXPECT_THAT(root.Get("labels").Entries(), IsEmpty());
  EXPECT_OK(document.status());
}

TEST(YamlTest, WrongValuesSayWhatIsAllowed) {
  const struct {
    const char* text;
    std::function<void(const YamlNode&)> read;
    const char* message;
  } kCases[] = {
      {"k: yes", [](const YamlNode& n) { n.Bool(); }, "`k` is yes; true or false is expected"},
      {"k: \"true\"", [](const YamlNode& n) { n.Bool(); },
       "`k` is the text \"true\"; true or false is expected"},
      {"k:", [](const YamlNode& n) { n.String(); }, "`k` is nothing; text is expected"},
      {"k: [1]", [](const YamlNode& n) { n.String(); }, "`k` is a list; text is expected"},
      {"k: 1.5",
       [](const YamlNode& n) {
         n.Int({0, 9});
       },
       "`k` is 1.5; an integer from 0 to 9 is expected"},
      {"k: \"5\"",
       [](const YamlNode& n) {
         n.Int({0, 9});
       },
       "`k` is the text \"5\"; an integer from 0 to 9 is expected"},
      {"k: 10",
       [](const YamlNode& n) {
         n.Int({0, 9});
       },
       "`k` is 10; an integer from 0 to 9 is expected"},
      {"k: 99999999999999999999",
       [](const YamlNode& n) {
         n.Int({1, INT64_MAX});
       },
       "`k` is 99999999999999999999; an integer of at least 1 is expected"},
      {"k: .nan",
       [](const YamlNode& n) {
         n.Double({-1, 1});
       },
       "`k` is .nan; a number from -1 to 1 is expected"},
      {"k: inf",
       [](const YamlNode& n) {
         n.Double({0, std::numeric_limits<double>::max()});
       },
       "`k` is inf; a number of at least 0 is expected"},
      {"k: 30",
       [](const YamlNode& n) {
         n.Duration({absl::Seconds(1), absl::Hours(1)});
       },
       "`k` is 30; a duration such as 250ms, 30s, 5m, 1h30m or 7d from 1s to 1h is expected"},
      {"k: 2h",
       [](const YamlNode& n) {
         n.Duration({absl::Seconds(1), absl::Hours(1)});
       },
       "`k` is 2h; a duration such as 250ms, 30s, 5m, 1h30m or 7d from 1s to 1h is expected"},
      {"k: 5MB",
       [](const YamlNode& n) {
         n.Bytes({1, 1u << 30});
       },
       "`k` is 5MB; a size such as 512B, 64KiB, 16MiB, 2GiB or 1TiB from 1B to 1GiB is expected"},
      {"k: -1",
       [](const YamlNode& n) {
         n.Bytes({0, 1u << 30});
       },
       "`k` is -1; a size such as 512B, 64KiB, 16MiB, 2GiB or 1TiB of at most 1GiB is expected"},
      {"k: warn",
       [](const YamlNode& n) {
         n.Word({"info", "warning"});
       },
       "`k` is warn; one of info, warning is expected"},
      {"k: 3", [](const YamlNode& n) { n.Get("inner"); }, "`k` is 3; a map is expected"},
      {"k: 3", [](const YamlNode& n) { n.Items(); }, "`k` is 3; a list is expected"},
      {"k: {a: 1}", [](const YamlNode& n) { n.Require("b"), n.Get("a"); },
       "the key `b` is missing in `k`"},
      {"k: [a, {}]", [](const YamlNode& n) { n.Strings(); },
       "item 2 of `k` is a map; text is expected"},
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.text);
    YamlDocument document("f", test.text);
    test.read(document.root().Get("k"));
    const std::vector<std::string> errors = document.errors();
    ASSERT_EQ(errors.size(), 1u) << document.status();
    EXPECT_THAT(errors[0], ::testing::EndsWith(std::string(": ") + test.message));
  }
}

TEST(YamlTest, UnknownKeysAreReportedWithTheNearestKnownOne) {
  YamlDocument document("f.yaml",
                        "listne: a\nstore:\n  directry: /x\n  zzz: 1\nnever_read: {a: 1}\n");
  YamlNode root = document.root();
  root.Get("listen").String();
  root.Get("store").Get("directory").String();
  EXPECT_THAT(
      document.errors(),
      ElementsAre(
          "f.yaml:1:1: unknown key `listne` in the document; did you mean `listen`? Allowed: "
          "listen, store",
          "f.yaml:3:3: unknown key `directry` in `store`; did you mean `directory`? Allowed: "
          "directory",
          "f.yaml:4:3: unknown key `zzz` in `store`; Allowed: directory",
          "f.yaml:5:1: unknown key `never_read` in the document; Allowed: listen, store"));
}

TEST(YamlTest, ReportsAllErrorsInTheOrderOfTheirPlaces) {
  YamlDocument document("f", "b: x\na: y\nc: z\n");
  YamlNode root = document.root();
  root.Get("a").Int({0, 1});
  root.Get("b").Int({0, 1});
  root.Get("c").Error("`c` contradicts `a`");
  EXPECT_THAT(document.errors(), ElementsAre(HasSubstr("f:1:4: "), HasSubstr("f:2:4: "),
                                             "f:3:4: `c` contradicts `a`"));
  EXPECT_THAT(document.status(),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\n")));
}

TEST(YamlTest, AnErrorIsReportedOnceHoweverOftenTheValueIsRead) {
  YamlDocument document("f", "items: [{a: x, b: 1}]\n");
  const YamlNode item = document.root().Get("items").Items()[0];
  item.Get("a").Int({0, 9});
  item.Get("a").Int({0, 9});
  EXPECT_THAT(
      document.errors(),
      ElementsAre("f:1:13: `a` is x; an integer from 0 to 9 is expected",
                  "f:1:16: unknown key `b` in item 1 of `items`; did you mean `a`? Allowed: a"));
}

TEST(YamlTest, CanonicalTextTellsValuesNotLayouts) {
  const auto canonical = [](const char* text) {
    YamlDocument document("f", text);
    return document.root().Canonical();
  };
  EXPECT_EQ(canonical("a: [1, 2] # c\nb: {c: x}\n"), canonical("a:\n  - 1\n  - 2\nb:\n  c: x\n"));
  EXPECT_NE(canonical("a: 1\n"), canonical("a: 2\n"));
  EXPECT_NE(canonical("a: 1\n"), canonical("a: \"1\"\n"));
  EXPECT_NE(canonical("a: [b]\n"), canonical("a: {b: }\n"));
}

TEST(YamlTest, ManyErrorsAreCut) {
  std::string text;
  for (int i = 0; i < 150; ++i) absl::StrAppend(&text, "k", i, ": 1\n");
  YamlDocument document("f", text);
  document.root().Get("other");
  const std::vector<std::string> errors = document.errors();
  ASSERT_EQ(errors.size(), 101u);
  EXPECT_EQ(errors.back(), "f: and 50 more errors");
}

TEST(YamlTest, NearestWordIsOnlyGivenForTypos) {
  const std::vector<std::string> known = {"for", "keep_firing_for", "alert"};
  EXPECT_EQ(NearestWord("fro", known), "for");
  EXPECT_EQ(NearestWord("keep_firing", known), "");
  EXPECT_EQ(NearestWord("alerts", known), "alert");
  EXPECT_EQ(NearestWord("", known), "");
  EXPECT_EQ(NearestWord("x", {}), "");
}

TEST(ReadYamlFileTest, NamesTheFileAndTheReason) {
  support::TempDir dir;
  std::string text;
  EXPECT_THAT(ReadYamlFile(dir.File("none.yaml"), &text),
              support::StatusIs(absl::StatusCode::kNotFound,
                                HasSubstr("none.yaml: No such file or directory")));
  EXPECT_THAT(ReadYamlFile(dir.path(), &text),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Is a directory")));
  std::ofstream(dir.File("big.yaml")) << std::string((1u << 20) + 1, '#');
  EXPECT_THAT(ReadYamlFile(dir.File("big.yaml"), &text),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1048576")));
  std::ofstream(dir.File("good.yaml")) << "a: 1\n";
  ASSERT_OK(ReadYamlFile(dir.File("good.yaml"), &text));
  EXPECT_EQ(text, "a: 1\n");
}

}  // namespace
}  // namespace foreshock::yaml
