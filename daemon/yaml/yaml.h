// Strict YAML: a document is read key by key; what nobody asked for is an error, and all errors are
// reported at once, each as file:line:column: what is wrong, what is allowed.
//
//   YamlDocument document("foreshockd.yaml", text);
//   YamlNode root = document.root();
//   options.listen = root.Get("listen").String("127.0.0.1:7070");
//   options.lateness = root.Get("lateness").Duration({absl::Seconds(1), absl::Hours(1)}, fallback);
//   YamlNode store = root.Get("store");            // may be absent: every getter then falls back
//   options.directory = store.Require("directory").String();
//   for (const YamlNode& item : root.Get("notifiers").Items()) ReadNotifier(item);
//   FORESHOCK_RETURN_IF_ERROR(document.status());  // InvalidArgument with every error
//
// The subset of YAML: one document of UTF-8 text without NUL or control characters, at most 1 MiB,
// nested at most 64 deep. Anchors, aliases, merge keys, tags, duplicate keys and keys that are not
// plain text are errors. An empty document is an empty map. Columns count bytes, from 1.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace foreshock::yaml {

// Inclusive.
template <typename T>
struct YamlRange {
  T min;
  T max;
};

namespace internal {
struct Tree;
struct Value;
}  // namespace internal

// A place in a document, or the place where something is absent. Cheap to copy; lives as long as
// its document. A getter on an absent node returns the fallback; on a wrong value it records an
// error and returns the fallback, so that reading goes on. Not thread-safe.
class YamlNode {
 public:
  bool present() const { return value_ != nullptr; }
  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;
  int line() const;    // from 1; of the enclosing map when absent
  int column() const;  // from 1

  // Maps. Asking for a key makes it known; keys of a map that was read but never asked for are
  // errors of status(). Both record an error when this is no map; Require also when the key is
  // missing.
  YamlNode Get(absl::string_view key) const;
  // Whether a map has the key. Asks for nothing: for keys that are gone, so that no list names
  // them.
  bool Has(absl::string_view key) const;
  YamlNode Require(absl::string_view key) const;
  // All entries in file order, any key being allowed: labels and the like.
  std::vector<std::pair<std::string, YamlNode>> Entries() const;

  // The elements of a list.
  std::vector<YamlNode> Items() const;

  std::string String(absl::string_view fallback = "") const;  // any scalar but null
  // One of `allowed`.
  std::string Word(absl::Span<const absl::string_view> allowed,
                   absl::string_view fallback = "") const;
  bool Bool(bool fallback = false) const;  // true or false
  int64_t Int(YamlRange<int64_t> range, int64_t fallback = 0) const;
  double Double(YamlRange<double> range, double fallback = 0) const;  // finite
  // "250ms", "30s", "5m", "1h30m", "7d".
  absl::Duration Duration(YamlRange<absl::Duration> range,
                          absl::Duration fallback = absl::ZeroDuration()) const;
  // "512B", "64KiB", "16MiB", "1.5GiB", "2TiB", or an integer of bytes.
  uint64_t Bytes(YamlRange<uint64_t> range, uint64_t fallback = 0) const;
  std::vector<std::string> Strings() const;  // a list of strings

  // The value on one line, equal for equal values whatever their layout: to tell what a reload
  // changed. "" when absent.
  std::string Canonical() const;

  // Records an error at this place.
  void Error(absl::string_view message) const;

 private:
  friend class YamlDocument;
  YamlNode(internal::Tree* tree, const internal::Value* value, const internal::Value* parent,
           std::string name)
      : tree_(tree), value_(value), parent_(parent), name_(std::move(name)) {}

  const std::string* Scalar(absl::string_view expected) const;
  void WrongType(absl::string_view expected) const;

  internal::Tree* tree_;
  const internal::Value* value_;   // nullptr: absent
  const internal::Value* parent_;  // where an absent node would be
  std::string name_;               // for messages: "`for`", "item 2 of `rules`"
};

class YamlDocument {
 public:
  // `name` stands for the file in messages.
  YamlDocument(absl::string_view name, absl::string_view text);
  ~YamlDocument();
  YamlDocument(const YamlDocument&) = delete;
  YamlDocument& operator=(const YamlDocument&) = delete;

  // An empty map if the text could not be parsed.
  YamlNode root();

  // Every error so far, in the order of their places, unknown keys included. Call it when
  // everything was read.
  std::vector<std::string> errors() const;
  // OK, or InvalidArgument with the errors, one a line.
  absl::Status status() const;

 private:
  std::unique_ptr<internal::Tree> tree_;
};

// The text of a file, or the reason why it could not be read (NotFound, PermissionDenied,
// InvalidArgument for a directory or more than 1 MiB). The message names the file.
absl::Status ReadYamlFile(const std::string& path, std::string* text);

// The word of `known` nearest to `word` if it looks like a typo of it, else "".
absl::string_view NearestWord(absl::string_view word, absl::Span<const std::string> known);

}  // namespace foreshock::yaml
