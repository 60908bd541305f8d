#include "daemon/notify/body_template.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::notify {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

Json Message() {
  return {{"status", "firing"},
          {"run", "exp-42"},
          {"summary", "critical: \"x\"\nin \\ run"},
          {"more", 3},
          {"alerts",
           {{{"rule", "A"},
             {"layers", {1, 2}},
             {"all_layers", false},
             {"runbook", ""},
             {"labels", {{"team", "llm"}}}},
            {{"rule", "B"}, {"run", "own"}, {"runbook", "https://r"}, {"all_layers", true}}}}};
}

std::string Rendered(const std::string& text) {
  auto parsed = BodyTemplate::Parse("t", text, /*json=*/false);
  if (!parsed.ok()) return absl::StrCat("ERROR ", std::string(parsed.status().message()));
  return (*parsed)->Render(Message());
}

TEST(BodyTemplateTest, ValuesSectionsAndLists) {
  struct Case {
    const char* text;
    const char* result;
  };
  for (const Case& c : {
           Case{"plain <b> & \"text\"", "plain <b> & \"text\""},
           Case{"{{status}} {{ more }}", "firing 3"},
           Case{"\"{{summary}}\"", "\"critical: \\\"x\\\"\\nin \\\\ run\""},
           Case{"{{{summary}}}|{{&summary}}",
                "critical: \"x\"\nin \\ run|critical: \"x\"\nin \\ run"},
           Case{"{{#alerts}}{{rule}}{{^last}}, {{/last}}{{/alerts}}", "A, B"},
           Case{"{{#alerts}}{{#first}}[{{/first}}{{run}};{{/alerts}}", "[exp-42;own;"},
           Case{"{{#alerts}}{{#runbook}}<{{runbook}}>{{/runbook}}{{^runbook}}-{{/runbook}}{{/"
                "alerts}}",
                "-<https://r>"},
           Case{"{{#alerts}}{{#all_layers}}all{{/all_layers}}{{#layers}}{{.}} "
                "{{/layers}}{{/alerts}}",
                "1 2 all"},
           Case{"{{#alerts}}{{labels.team}}{{/alerts}}", "llm"},
           Case{"{{! a comment }}{{checkpoint}}", ""},
       }) {
    EXPECT_EQ(Rendered(c.text), c.result) << c.text;
  }
}

TEST(BodyTemplateTest, MistakesHaveTheirPlace) {
  struct Case {
    const char* text;
    const char* says;
  };
  for (const Case& c : {
           Case{"{{sumary}}", "t:1:1: 'sumary' is not in a message; it has acknowledgement"},
           Case{"a\n  {{#alerts}}{{rul}}{{/alerts}}", "t:2:14: 'rul'"},
           Case{"x {{run", "t:1:3: this tag has no end"},
           Case{"{{#alerts}}\n", "t:2:1: the section 'alerts' has no end"},
           Case{"a{{/alerts}}", "t:1:2: no section 'alerts' is open here"},
           Case{"{{#alerts}}{{#layers}}{{/alerts}}{{/layers}}", "t:1:23: the section that is open"},
           Case{"{{> other}}", "t:1:1: there are no partials"},
           Case{"{{=<% %>=}}", "t:1:1: other delimiters"},
           Case{"{{}}", "t:1:1: ''"},
           Case{"{{{run}}", "t:1:1: this tag has no end"},
           Case{"{{labels}}{{run.x}}", "t:1:11: 'x'"},
       }) {
    EXPECT_THAT(Rendered(c.text), StartsWith(absl::StrCat("ERROR ", c.says))) << c.text;
  }
}

TEST(BodyTemplateTest, WhatIsToBeJsonIsTriedOnAnExample) {
  EXPECT_OK(BodyTemplate::Parse("t", R"({"text": "{{summary}}"})", true));
  EXPECT_OK(BodyTemplate::Parse(
      "t", R"([{{#alerts}}{"r": "{{rule}}"}{{^last}},{{/last}}{{/alerts}}])", true));
  EXPECT_THAT(BodyTemplate::Parse("t", R"({"text": "{{{summary}}}"})", true),
              support::StatusIs(
                  absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("t:1:1:"), HasSubstr("no JSON"), HasSubstr("content_type"))));
  EXPECT_THAT(BodyTemplate::Parse("t", R"([{{#alerts}}"{{rule}}",{{/alerts}}])", true),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no JSON")));
  EXPECT_OK(BodyTemplate::Parse("t", "{{{summary}}}", false));
}

TEST(BodyTemplateTest, IsReadFromAFileThatIsNotTooLarge) {
  const support::TempDir dir;
  const std::string path = dir.File("t.mustache");
  EXPECT_THAT(BodyTemplate::Read(path, true),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  std::ofstream(path) << "{{rnu}}";
  EXPECT_THAT(BodyTemplate::Read(path, true),
              support::StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(path + ":1:1:")));
  std::ofstream(path) << std::string(BodyTemplate::kBytesMax + 1, ' ');
  EXPECT_THAT(BodyTemplate::Read(path, true),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65536")));
}

// What people copy from docs/webhook.md is taken.
TEST(BodyTemplateTest, TheExamplesOfTheDocumentAreGood) {
  std::ifstream file(std::string(FORESHOCK_SOURCE_DIR) + "/docs/webhook.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  int examples = 0;
  const std::string fence = "```mustache\n";
  for (size_t at = document.find(fence); at != std::string::npos; at = document.find(fence, at)) {
    at += fence.size();
    const std::string example = document.substr(at, document.find("```", at) - at);
    EXPECT_OK(BodyTemplate::Parse("webhook.md", example, true)) << example;
    ++examples;
  }
  EXPECT_GE(examples, 2);
}

}  // namespace
}  // namespace foreshock::notify
