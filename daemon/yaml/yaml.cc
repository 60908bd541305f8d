#include "daemon/yaml/yaml.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "daemon/base/file.h"
#include "daemon/base/status_macros.h"
#include "daemon/yaml/tree.h"

namespace foreshock::yaml {

using internal::Kind;
using internal::Tree;
using internal::Value;

namespace {

constexpr size_t kErrorsShown = 100;
constexpr size_t kTextShown = 60;  // of a wrong value, in a message

std::string Quote(absl::string_view text) {
  const bool cut = text.size() > kTextShown;
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text.substr(0, kTextShown)),
                      cut ? "...\"" : "\"");
}

std::string Describe(const Value& value) {
  switch (value.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kPlain:
      return value.text;
    case Kind::kQuoted:
      return absl::StrCat("the text ", Quote(value.text));
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
  }
  return "nothing";
}

void AppendCanonical(const Value& value, std::string* out) {
  switch (value.kind) {
    case Kind::kNull:
      absl::StrAppend(out, "~");
      return;
    case Kind::kPlain:
      absl::StrAppend(out, value.text);
      return;
    case Kind::kQuoted:
      absl::StrAppend(out, "\"", absl::CEscape(value.text), "\"");
      return;
    case Kind::kList:
    case Kind::kMap:
      absl::StrAppend(out, value.kind == Kind::kList ? "[" : "{");
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (value.kind == Kind::kMap) {
          absl::StrAppend(out, "\"", absl::CEscape(value.keys[i]), "\":");
        }
        AppendCanonical(value.items[i], out);
        absl::StrAppend(out, ",");
      }
      absl::StrAppend(out, value.kind == Kind::kList ? "]" : "}");
      return;
  }
}

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

struct Suffix {
  absl::string_view text;
  double factor;
};

// Splits "1.5GiB" into the number and the unit's factor; false when it is no such thing.
bool TakeQuantity(absl::string_view* text, absl::Span<const Suffix> units, double* value) {
  size_t digits = 0;
  while (digits < text->size() && (absl::ascii_isdigit((*text)[digits]) || (*text)[digits] == '.'))
    ++digits;
  double number = 0;
  if (digits == 0 || !absl::SimpleAtod(text->substr(0, digits), &number)) return false;
  text->remove_prefix(digits);
  size_t letters = 0;
  while (letters < text->size() && absl::ascii_isalpha((*text)[letters])) ++letters;
  for (const Suffix& unit : units) {
    if (text->substr(0, letters) == unit.text) {
      *value = number * unit.factor;
      text->remove_prefix(letters);
      return true;
    }
  }
  return false;
}

// "16MiB", as a file says it.
std::string BytesInFile(uint64_t bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (unit + 1 < std::size(kUnits) && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

// Doubles and integers at the ends of their type stand for "no limit".
template <typename T, typename Format>
std::string RangeText(YamlRange<T> range, T lowest, T highest, const Format& format) {
  if (range.min <= lowest && range.max >= highest) return "";
  if (range.max >= highest) return absl::StrCat(" of at least ", format(range.min));
  if (range.min <= lowest) return absl::StrCat(" of at most ", format(range.max));
  return absl::StrCat(" from ", format(range.min), " to ", format(range.max));
}

}  // namespace

absl::string_view NearestWord(absl::string_view word, absl::Span<const std::string> known) {
  absl::string_view best;
  size_t best_distance = std::min<size_t>(3, word.size() / 3 + 1);
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance || (distance == best_distance && best.empty())) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

absl::Status ReadYamlFile(const std::string& path, std::string* text) {
  FORESHOCK_ASSIGN_OR_RETURN(*text, base::ReadFile(path, internal::kTextBytesMax));
  return absl::OkStatus();
}

bool YamlNode::is_map() const { return present() && value_->kind == Kind::kMap; }
bool YamlNode::is_list() const { return present() && value_->kind == Kind::kList; }
bool YamlNode::is_scalar() const {
  return present() && (value_->kind == Kind::kPlain || value_->kind == Kind::kQuoted);
}
int YamlNode::line() const { return (present() ? value_ : parent_)->mark.line; }
int YamlNode::column() const { return (present() ? value_ : parent_)->mark.column; }

void YamlNode::Error(absl::string_view message) const {
  tree_->Add({line(), column()}, std::string(message));
}

void YamlNode::WrongType(absl::string_view expected) const {
  Error(absl::StrCat(name_, " is ", Describe(*value_), "; ", expected, " is expected"));
}

YamlNode YamlNode::Get(absl::string_view key) const {
  YamlNode absent(tree_, nullptr, present() ? value_ : parent_, absl::StrCat("`", key, "`"));
  if (!present()) return absent;
  if (value_->kind != Kind::kMap) {
    if (!value_->read_as_map) WrongType("a map");
    value_->read_as_map = true;
    return absent;
  }
  value_->read_as_map = true;
  auto& asked = value_->asked;
  if (std::find(asked.begin(), asked.end(), key) == asked.end()) asked.emplace_back(key);
  const auto found = std::find(value_->keys.begin(), value_->keys.end(), key);
  if (found == value_->keys.end()) return absent;
  const Value& value = value_->items[found - value_->keys.begin()];
  return YamlNode(tree_, &value, value_, value.name);
}

bool YamlNode::Has(absl::string_view key) const {
  return is_map() && std::find(value_->keys.begin(), value_->keys.end(), key) != value_->keys.end();
}

YamlNode YamlNode::Require(absl::string_view key) const {
  YamlNode node = Get(key);
  if (is_map() && !node.present()) {
    Error(absl::StrCat("the key `", key, "` is missing in ", name_));
  }
  return node;
}

std::vector<std::pair<std::string, YamlNode>> YamlNode::Entries() const {
  std::vector<std::pair<std::string, YamlNode>> entries;
  if (!present()) return entries;
  if (value_->kind != Kind::kMap) {
    WrongType("a map");
    return entries;
  }
  value_->read_as_map = true;
  value_->any_key = true;
  for (size_t i = 0; i < value_->items.size(); ++i) {
    const Value& value = value_->items[i];
    entries.emplace_back(value_->keys[i], YamlNode(tree_, &value, value_, value.name));
  }
  return entries;
}

std::vector<YamlNode> YamlNode::Items() const {
  std::vector<YamlNode> items;
  if (!present()) return items;
  if (value_->kind != Kind::kList) {
    WrongType("a list");
    return items;
  }
  for (const Value& value : value_->items) {
    items.push_back(YamlNode(tree_, &value, value_, absl::StrCat(value.name, " of ", name_)));
  }
  return items;
}

const std::string* YamlNode::Scalar(absl::string_view expected) const {
  if (!present()) return nullptr;
  if (is_scalar()) return &value_->text;
  WrongType(expected);
  return nullptr;
}

std::string YamlNode::String(absl::string_view fallback) const {
  const std::string* text = Scalar("text");
  return text != nullptr ? *text : std::string(fallback);
}

std::string YamlNode::Word(absl::Span<const absl::string_view> allowed,
                           absl::string_view fallback) const {
  const std::string expected = absl::StrCat("one of ", absl::StrJoin(allowed, ", "));
  const std::string* text = Scalar(expected);
  if (text == nullptr) return std::string(fallback);
  if (std::find(allowed.begin(), allowed.end(), *text) != allowed.end()) return *text;
  WrongType(expected);
  return std::string(fallback);
}

bool YamlNode::Bool(bool fallback) const {
  if (!present()) return fallback;
  if (value_->kind == Kind::kPlain && value_->text == "true") return true;
  if (value_->kind == Kind::kPlain && value_->text == "false") return false;
  WrongType("true or false");
  return fallback;
}

int64_t YamlNode::Int(YamlRange<int64_t> range, int64_t fallback) const {
  if (!present()) return fallback;
  const auto number = [](int64_t x) { return absl::StrCat(x); };
  int64_t result = 0;
  if (value_->kind == Kind::kPlain && absl::SimpleAtoi(value_->text, &result) &&
      result >= range.min && result <= range.max) {
    return result;
  }
  WrongType(absl::StrCat("an integer", RangeText(range, std::numeric_limits<int64_t>::min(),
                                                 std::numeric_limits<int64_t>::max(), number)));
  return fallback;
}

double YamlNode::Double(YamlRange<double> range, double fallback) const {
  if (!present()) return fallback;
  const auto number = [](double x) { return absl::StrCat(x); };
  double result = 0;
  if (value_->kind == Kind::kPlain && absl::SimpleAtod(value_->text, &result) &&
      std::isfinite(result) && result >= range.min && result <= range.max) {
    return result;
  }
  WrongType(absl::StrCat("a number", RangeText(range, std::numeric_limits<double>::lowest(),
                                               std::numeric_limits<double>::max(), number)));
  return fallback;
}

absl::Duration YamlNode::Duration(YamlRange<absl::Duration> range, absl::Duration fallback) const {
  if (!present()) return fallback;
  static constexpr Suffix kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  if (value_->kind == Kind::kPlain && !value_->text.empty()) {
    absl::string_view rest = value_->text;
    double seconds = 0;
    double part = 0;
    while (!rest.empty() && TakeQuantity(&rest, kUnits, &part)) seconds += part;
    const absl::Duration result = absl::Seconds(seconds);
    if (rest.empty() && result >= range.min && result <= range.max) return result;
  }
  const auto text = [](absl::Duration d) { return absl::FormatDuration(d); };
  WrongType(absl::StrCat("a duration such as 250ms, 30s, 5m, 1h30m or 7d",
                         RangeText(range, absl::ZeroDuration(), absl::InfiniteDuration(), text)));
  return fallback;
}

uint64_t YamlNode::Bytes(YamlRange<uint64_t> range, uint64_t fallback) const {
  if (!present()) return fallback;
  static constexpr Suffix kUnits[] = {
      {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  if (value_->kind == Kind::kPlain) {
    uint64_t result = 0;
    bool ok = absl::SimpleAtoi(value_->text, &result);
    absl::string_view rest = value_->text;
    double bytes = 0;
    if (!ok && TakeQuantity(&rest, kUnits, &bytes) && rest.empty() && bytes < 0x1p63) {
      result = static_cast<uint64_t>(bytes);
      ok = true;
    }
    if (ok && result >= range.min && result <= range.max) return result;
  }
  WrongType(absl::StrCat(
      "a size such as 512B, 64KiB, 16MiB, 2GiB or 1TiB",
      RangeText(range, uint64_t{0}, std::numeric_limits<uint64_t>::max(), BytesInFile)));
  return fallback;
}

std::vector<std::string> YamlNode::Strings() const {
  std::vector<std::string> strings;
  for (const YamlNode& item : Items()) {
    const std::string* text = item.Scalar("text");
    if (text != nullptr) strings.push_back(*text);
  }
  return strings;
}

std::string YamlNode::Canonical() const {
  std::string text;
  if (present()) AppendCanonical(*value_, &text);
  return text;
}

namespace {

void UnknownKeys(const Value& value, const std::string& name,
                 std::vector<Tree::Problem>* problems) {
  if (value.kind == Kind::kMap && value.read_as_map && !value.any_key) {
    for (size_t i = 0; i < value.keys.size(); ++i) {
      if (std::find(value.asked.begin(), value.asked.end(), value.keys[i]) != value.asked.end()) {
        continue;
      }
      std::string message = absl::StrCat("unknown key ", value.items[i].name, " in ", name, "; ");
      const absl::string_view near = NearestWord(value.keys[i], value.asked);
      if (!near.empty()) absl::StrAppend(&message, "did you mean `", near, "`? ");
      absl::StrAppend(&message, "Allowed: ", absl::StrJoin(value.asked, ", "));
      problems->push_back({value.key_marks[i], std::move(message)});
    }
  }
  for (const Value& item : value.items) {
    UnknownKeys(item, value.kind == Kind::kList ? absl::StrCat(item.name, " of ", name) : item.name,
                problems);
  }
}

}  // namespace

YamlDocument::YamlDocument(absl::string_view name, absl::string_view text)
    : tree_(std::make_unique<Tree>()) {
  tree_->file = std::string(name);
  internal::Parse(text, tree_.get());
}

YamlDocument::~YamlDocument() = default;

YamlNode YamlDocument::root() {
  return YamlNode(tree_.get(), &tree_->root, nullptr, tree_->root.name);
}

std::vector<std::string> YamlDocument::errors() const {
  std::vector<Tree::Problem> problems = tree_->problems;
  if (!tree_->broken) UnknownKeys(tree_->root, tree_->root.name, &problems);
  std::stable_sort(
      problems.begin(), problems.end(), [](const Tree::Problem& a, const Tree::Problem& b) {
        return std::pair(a.mark.line, a.mark.column) < std::pair(b.mark.line, b.mark.column);
      });
  std::vector<std::string> errors;
  for (const Tree::Problem& problem : problems) {
    std::string error = absl::StrCat(tree_->file, ":", problem.mark.line, ":", problem.mark.column,
                                     ": ", problem.message);
    // A value may be read more than once (the defaults of a group): one error is enough.
    if (std::find(errors.begin(), errors.end(), error) == errors.end()) {
      errors.push_back(std::move(error));
    }
  }
  if (errors.size() > kErrorsShown) {
    const size_t more = errors.size() - kErrorsShown;
    errors.resize(kErrorsShown);
    errors.push_back(absl::StrCat(tree_->file, ": and ", more, " more errors"));
  }
  return errors;
}

absl::Status YamlDocument::status() const {
  const std::vector<std::string> errors = this->errors();
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
}

}  // namespace foreshock::yaml
