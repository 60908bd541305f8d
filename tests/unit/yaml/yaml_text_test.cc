// What of YAML is taken at all: syntax, encoding, nesting, duplicates, truncation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/yaml/yaml.h"
#include "tests/support/status_matchers.h"

namespace foreshock::yaml {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Errors(const std::string& text) {
  YamlDocument document("f", text);
  document.root().Entries();
  return document.errors();
}

TEST(YamlTextTest, RefusesWhatIsOutsideTheSubset) {
  const struct {
    const char* what;
    std::string text;
    const char* error;
  } kCases[] = {
      {"duplicate key", "a: 1\nb: 2\na: 3\n",
       "f:3:1: duplicate key `a`; it was set in line 1, a key may be set once"},
      {"duplicate in flow map", "x: {a: 1, a: 2}\n",
       "f:1:11: duplicate key `a`; it was set in line 1, a key may be set once"},
      {"anchor", "a: &x 1\n", "f:1:4: anchors (&name) are not allowed; write the value out"},
      {"anchor on a map", "a: &x\n  b: 1\n",
       "f:1:4: anchors (&name) are not allowed; write the value out"},
      {"merge key is an alias", "a: {b: 1}\n<<: *a\n", "f:2:5: "},
      {"tag", "a: !!str 1\n",
       "f:1:4: the tag tag:yaml.org,2002:str is not allowed; write the value without a tag"},
      {"second document", "a: 1\n---\nb: 2\n",
       "f:2:1: a second document starts here; a file holds one document"},
      {"list as key", "? [a]\n: 1\n", "f:1:3: a key is a list or a map; a key is a plain word"},
      {"empty key", ": 1\n", "f:1:1: a key is empty; a key is a plain word"},
      {"open quote", "a: \"x\nb: 1\n", "f:1:4: the quoted text that starts here does not end"},
      {"open single quote", "a: 'it''s\n", "f:1:4: the quoted text that starts here does not end"},
      {"open quote after UTF-8 and escapes",
       "\xEF\xBB\xBF"
       "\xC3\xA9: \"a\\\"\"\nb: \"x\\\"\n",
       "f:2:4: the quoted text that starts here does not end"},
      {"tab as indentation", "a:\n\tb: 1\n", "f:2:3: not valid YAML: "},
      {"unclosed list", "a: [1, 2\n", "not valid YAML: "},
      {"NUL", std::string("a: 1\nb: \0\n", 10), "f:2:4: a NUL byte; the file must be UTF-8 text"},
      {"control character", "a: \x01\n",
       "f:1:4: the control character 0x01; only tab and line ends are allowed"},
      {"Latin-1", "a: caf\xE9\n", "f:1:7: the byte 0xe9 is not UTF-8; the file must be UTF-8 text"},
      {"overlong UTF-8", "a: \xC0\xAF\n", "f:1:4: the byte 0xc0 is not UTF-8"},
      {"surrogate", "a: \xED\xA0\x80\n", "f:1:4: the byte 0xed is not UTF-8"},
      {"UTF-16",
       std::string("\xFF\xFE"
                   "a\0",
                   4),
       "f:1:1: the byte 0xff is not UTF-8"},
      {"too large", std::string((1u << 20) + 1, '#'), "at most 1048576 are allowed"},
      {"a scalar is no document", "hello\n", "f:1:1: the document is hello; a map is expected"},
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.what);
    const std::vector<std::string> errors = Errors(test.text);
    ASSERT_EQ(errors.size(), 1u) << ::testing::PrintToString(errors);
    EXPECT_THAT(errors[0], HasSubstr(test.error));
  }
}

TEST(YamlTextTest, ReportsEveryDuplicate) {
  EXPECT_THAT(Errors("a: 1\na: 2\na: {b: 1, b: 2}\n"),
              ElementsAre(HasSubstr("f:2:1: duplicate"), HasSubstr("f:3:1: duplicate"),
                          HasSubstr("f:3:11: duplicate")));
}

TEST(YamlTextTest, TakesWhatIsInsideTheSubset) {
  for (const char* text :
       {"", "\n\n", "# only a comment\n", "---\na: 1\n", "a: 1\n...\n",
        "\xEF\xBB\xBF"
        "a: 1\n",
        "a: caf\xC3\xA9 \xF0\x9F\x98\x80\n", "a: |\n  two\n  lines\n", "a: 1\r\nb: 2\r\n", "{}"}) {
    EXPECT_THAT(Errors(text), ElementsAre()) << text;
  }
}

TEST(YamlTextTest, NestingIsBounded) {
  const auto nested = [](int depth) {
    return "a: " + std::string(depth, '[') + std::string(depth, ']') + "\n";
  };
  EXPECT_THAT(Errors(nested(63)), ElementsAre());  // the map around it is level 1
  EXPECT_THAT(Errors(nested(64)), ElementsAre(HasSubstr("f:1:67: nested too deep; at most 64")));
  // Far beyond what the recursion of a parser survives.
  EXPECT_THAT(Errors(nested(100000)).size(), 1u);
  std::string block;
  for (int i = 0; i < 600; ++i) block += std::string(i, ' ') + "a:\n";
  EXPECT_THAT(Errors(block), ElementsAre(HasSubstr("nested too deep")));
}

TEST(YamlTextTest, TruncationAtEveryByteEndsInAValueOrAnError) {
  const std::string text =
      "groups:\n  - name: \"a\"\n    rules: [{alert: X, for: 3}, {}]\n    text: |\n      two\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    YamlDocument document("f", text.substr(0, cut));
    for (const YamlNode& group : document.root().Get("groups").Items()) {
      group.Get("name").String();
      for (const YamlNode& rule : group.Get("rules").Items()) rule.Get("for").Int({0, 9});
    }
    document.status().IgnoreError();
  }
}

}  // namespace
}  // namespace foreshock::yaml
