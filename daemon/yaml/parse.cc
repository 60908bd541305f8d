// The only file that sees yaml-cpp. Its event interface is used, not its nodes: those drop
// duplicate keys silently and lose the places of keys.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/yaml/tree.h"

namespace foreshock::yaml::internal {
namespace {

// Ends the parse early: what follows would only repeat the problem.
struct Stop {};

class Builder final : public YAML::EventHandler {
 public:
  Builder(absl::string_view text, Tree* tree) : text_(text), tree_(tree) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      Fail(mark, "a second document starts here; a file holds one document");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    CheckAnchor(mark, anchor);
    Scalar(mark, Kind::kNull, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Fail(mark, "aliases (*name) are not allowed; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CheckAnchor(mark, anchor);
    CheckTag(mark, tag);
    CheckQuote(mark);
    Scalar(mark, tag == "!" ? Kind::kQuoted : Kind::kPlain, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    CheckAnchor(mark, anchor);
    CheckTag(mark, tag);
    Open(mark, Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    CheckAnchor(mark, anchor);
    CheckTag(mark, tag);
    Open(mark, Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    Value value;
    bool have_key = false;
    std::string key;
    Mark key_mark;
    bool duplicate = false;
  };

  static Mark At(const YAML::Mark& mark) {
    return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
  }
  [[noreturn]] void Fail(const YAML::Mark& mark, std::string message) {
    tree_->Add(At(mark), std::move(message));
    throw Stop{};
  }
  void CheckAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) Fail(mark, "anchors (&name) are not allowed; write the value out");
  }
  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      Fail(mark, absl::StrCat("the tag ", tag, " is not allowed; write the value without a tag"));
    }
  }

  // yaml-cpp takes a quoted text that ends with the file.
  void CheckQuote(const YAML::Mark& mark) {
    size_t i = static_cast<size_t>(std::max(mark.pos, 0));
    if (i >= text_.size() || (text_[i] != '"' && text_[i] != '\'')) return;
    const char quote = text_[i];
    for (++i; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        if (quote == '"' || i + 1 >= text_.size() || text_[i + 1] != quote) return;
        ++i;
      }
    }
    Fail(mark, "the quoted text that starts here does not end");
  }

  void Scalar(const YAML::Mark& mark, Kind kind, const std::string& text) {
    Value value;
    value.kind = kind;
    value.mark = At(mark);
    value.text = text;
    if (!stack_.empty() && stack_.back().value.kind == Kind::kMap && !stack_.back().have_key) {
      TakeKey(std::move(value));
      return;
    }
    Attach(std::move(value));
  }

  void TakeKey(Value key) {
    Frame& frame = stack_.back();
    if (key.kind == Kind::kNull || key.text.empty()) {
      tree_->Add(key.mark, "a key is empty; a key is a plain word");
      throw Stop{};
    }
    frame.have_key = true;
    frame.key_mark = key.mark;
    const auto& keys = frame.value.keys;
    const auto first = std::find(keys.begin(), keys.end(), key.text);
    frame.duplicate = first != keys.end();
    if (frame.duplicate) {
      const Mark before = frame.value.key_marks[first - keys.begin()];
      tree_->Add(key.mark, absl::StrCat("duplicate key `", key.text, "`; it was set in line ",
                                        before.line, ", a key may be set once"));
    }
    frame.key = std::move(key.text);
  }

  void Open(const YAML::Mark& mark, Kind kind) {
    if (!stack_.empty() && stack_.back().value.kind == Kind::kMap && !stack_.back().have_key) {
      Fail(mark, "a key is a list or a map; a key is a plain word");
    }
    if (stack_.size() >= kDepthMax) {
      Fail(mark, absl::StrCat("nested too deep; at most ", kDepthMax, " levels are allowed"));
    }
    Frame frame;
    frame.value.kind = kind;
    frame.value.mark = At(mark);
    stack_.push_back(std::move(frame));
  }

  void Close() {
    Value value = std::move(stack_.back().value);
    stack_.pop_back();
    Attach(std::move(value));
  }

  void Attach(Value value) {
    if (stack_.empty()) {
      value.name = "the document";
      tree_->root = std::move(value);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.value.kind == Kind::kMap) {
      frame.have_key = false;
      if (frame.duplicate) return;
      value.name = absl::StrCat("`", frame.key, "`");
      frame.value.keys.push_back(std::move(frame.key));
      frame.value.key_marks.push_back(frame.key_mark);
    } else {
      value.name = absl::StrCat("item ", frame.value.items.size() + 1);
    }
    frame.value.items.push_back(std::move(value));
  }

  const absl::string_view text_;
  Tree* const tree_;
  int documents_ = 0;
  std::vector<Frame> stack_;
};

// Length of the UTF-8 sequence at the start of `s`, 0 if it is none (overlong forms, surrogates and
// code points above U+10FFFF are none).
size_t Utf8Length(absl::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead < 0xF0) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) >= 0xA0) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) >= 0x90) return 0;
    return 4;
  }
  return 0;
}

// Looks for what yaml-cpp would take silently or guess another encoding from.
bool CheckText(absl::string_view text, Tree* tree) {
  if (text.size() > kTextBytesMax) {
    tree->Add({}, absl::StrCat("the file has ", text.size(), " bytes; at most ", kTextBytesMax,
                               " are allowed"));
    return false;
  }
  Mark mark;
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = text[i];
    if (c == 0) {
      tree->Add(mark, "a NUL byte; the file must be UTF-8 text");
      return false;
    }
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      tree->Add(mark, absl::StrCat("the control character 0x", absl::Hex(c, absl::kZeroPad2),
                                   "; only tab and line ends are allowed"));
      return false;
    }
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) {
      tree->Add(mark, absl::StrCat("the byte 0x", absl::Hex(c, absl::kZeroPad2),
                                   " is not UTF-8; the file must be UTF-8 text"));
      return false;
    }
    if (c == '\n') {
      ++mark.line;
      mark.column = 1;
    } else {
      mark.column += static_cast<int>(length);
    }
    i += length;
  }
  return true;
}

}  // namespace

void Parse(absl::string_view text, Tree* tree) {
  tree->root.kind = Kind::kMap;
  tree->broken = !CheckText(text, tree);
  if (tree->broken) return;
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");  // a byte order mark counts for no column
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(text, tree);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    tree->Add({std::max(e.mark.line, 0) + 1, std::max(e.mark.column, 0) + 1},
              absl::StrCat("not valid YAML: ", e.msg));
    tree->broken = true;
  } catch (const Stop&) {
    tree->broken = true;
  }
  if (tree->broken) tree->root = Value();
  if (tree->root.kind == Kind::kNull) tree->root.kind = Kind::kMap;  // an empty document
  tree->root.name = "the document";
}

}  // namespace foreshock::yaml::internal
