#include "daemon/notify/body_template.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <kainjow/mustache.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/status_macros.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::notify {
namespace {

using Json = nlohmann::json;
using Data = kainjow::mustache::data;
using Mustache = kainjow::mustache::mustache;

// A text as JSON writes it between the quotes of a string.
std::string Escaped(const std::string& text) {
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

Data ToData(const Json& json) {
  switch (json.type()) {
    case Json::value_t::object: {
      Data object(Data::type::object);
      for (const auto& [key, value] : json.items()) object.set(key, ToData(value));
      return object;
    }
    case Json::value_t::array: {
      Data list(Data::type::list);
      for (size_t i = 0; i < json.size(); ++i) {
        // The analyzer does not see that Data's unique_ptr survives the return.
        Data element = ToData(json[i]);  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
        if (json[i].is_object()) {
          element.set("first", Data(i == 0));
          element.set("last", Data(i + 1 == json.size()));
        }
        list << element;
      }
      return list;
    }
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return text.empty() ? Data(false) : Data(text);
    }
    case Json::value_t::boolean:
      return Data(json.get<bool>());
    case Json::value_t::null:
      return Data(false);
    default:
      return Data(json.dump());
  }
}

// ---- The names that a message has.

void AddFields(const google::protobuf::Descriptor& message, std::set<std::string>* names) {
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.field(i);
    names->insert(field.name());
    if (field.message_type() != nullptr && !field.is_map()) AddFields(*field.message_type(), names);
  }
}

const std::set<std::string>& KnownNames() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all = {"version",       "status",        "group",     "run",   "run_url",
                                 "summary",       "alerts",        "more",      "first", "last",
                                 "fired_unix_ns", "ended_unix_ns", "end_reason"};
    AddFields(*v1::Alert::descriptor(), &all);
    return all;
  }();
  return names;
}

// "" or what is wrong with the name. Labels may have any key.
std::string CheckName(const std::string& name) {
  if (name == ".") return "";
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(name, '.'))) {
    if (!KnownNames().contains(part)) {
      return absl::StrCat("'", part, "' is not in a message; it has ",
                          absl::StrJoin(KnownNames(), ", "));
    }
    if (part == "labels") break;
  }
  return "";
}

// The first wrong tag. The library takes unknown names for empty ones.
struct Problem {
  size_t at = 0;
  std::string what;
};

std::optional<Problem> CheckTags(const std::string& text) {
  std::vector<std::string> sections;
  for (size_t at = text.find("{{"); at != std::string::npos; at = text.find("{{", at)) {
    const bool bare = text.compare(at, 3, "{{{") == 0;
    const std::string close = bare ? "}}}" : "}}";
    const size_t end = text.find(close, at);
    if (end == std::string::npos) return Problem{at, "this tag has no end"};
    std::string name(
        absl::StripAsciiWhitespace(text.substr(at + close.size(), end - at - close.size())));
    const char kind = name.empty() ? ' ' : name[0];
    if (kind == '=' || kind == '>') {
      return Problem{at, kind == '=' ? "other delimiters than {{ }} are not allowed"
                                     : "there are no partials to include"};
    }
    if (std::strchr("#^/&!", kind) != nullptr) {
      name = std::string(absl::StripAsciiWhitespace(name.substr(1)));
    }
    if (kind != '!') {
      if (std::string wrong = CheckName(name); !wrong.empty()) return Problem{at, wrong};
    }
    if (kind == '#' || kind == '^') sections.push_back(name);
    if (kind == '/') {
      if (sections.empty() || sections.back() != name) {
        return Problem{at, sections.empty() ? absl::StrCat("no section '", name, "' is open here")
                                            : absl::StrCat("the section that is open is '",
                                                           sections.back(), "'")};
      }
      sections.pop_back();
    }
    at = end + close.size();
  }
  if (sections.empty()) return std::nullopt;
  return Problem{text.size(), absl::StrCat("the section '", sections.back(), "' has no end")};
}

absl::Status ErrorAt(const std::string& name, const std::string& text, const Problem& problem) {
  const absl::string_view before = absl::string_view(text).substr(0, problem.at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == absl::string_view::npos ? problem.at + 1 : problem.at - newline;
  return absl::InvalidArgumentError(absl::StrCat(name, ":", line, ":", column, ": ", problem.what));
}

// A message with two alerts: one has all fields, the other only the required ones.
Json Example() {
  const Json full = {{"id", "1f0c"},
                     {"run", "exp-42"},
                     {"attempt", 1},
                     {"rule", "a \"rule\""},
                     {"severity", "critical"},
                     {"layers", {1, 2}},
                     {"value", 0.61},
                     {"summary", "It fell."},
                     {"labels", {{"team", "llm"}}},
                     {"evidence", {{{"rule", "r"}, {"supports", true}, {"text", "moved"}}}}};
  return {{"version", 1},
          {"status", "firing"},
          {"group", "1f0c/x"},
          {"run", "exp-42"},
          {"run_url", "http://x"},
          {"summary", "critical: \"x\"\nin run exp-42"},
          {"alerts", {full, {{"id", "2e1d"}, {"run", "exp-42"}}}},
          {"more", 0}};
}

class MustacheTemplate final : public BodyTemplate {
 public:
  explicit MustacheTemplate(const std::string& text) : mustache_(text) {
    mustache_.set_custom_escape(Escaped);
  }
  std::string Render(const Json& message) override { return mustache_.render(ToData(message)); }
  // "" or what the library says.
  const std::string& error() const { return mustache_.error_message(); }

 private:
  Mustache mustache_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BodyTemplate>> BodyTemplate::Parse(const std::string& name,
                                                                  const std::string& text,
                                                                  bool json) {
  if (text.size() > kBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", text.size(), " bytes, allowed are ", kBytesMax));
  }
  if (const std::optional<Problem> problem = CheckTags(text)) {
    return ErrorAt(name, text, *problem);
  }
  auto made = std::make_unique<MustacheTemplate>(text);
  if (!made->error().empty()) {  // "... at 17"
    size_t at = 0;
    (void)absl::SimpleAtoi(made->error().substr(made->error().rfind(' ') + 1), &at);
    return ErrorAt(name, text, {std::min(at, text.size()), made->error()});
  }
  if (json) {
    try {
      [[maybe_unused]] const Json parsed = Json::parse(made->Render(Example()));
    } catch (const Json::parse_error& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          name,
          ":1:1: the body of an example is no JSON (say content_type: text/plain if it "
          "should be none): ",
          error.what()));
    }
  }
  return made;
}

absl::StatusOr<std::unique_ptr<BodyTemplate>> BodyTemplate::Read(const std::string& path,
                                                                 bool json) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    const std::string what = absl::StrCat("template ", path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(what) : absl::PermissionDeniedError(what);
  }
  std::string text(kBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad())
    return absl::PermissionDeniedError(absl::StrCat("template ", path, ": unreadable"));
  return Parse(path, text, json);
}

}  // namespace foreshock::notify
