// The parsed document behind YamlNode: values with their places, and the errors found so far.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace foreshock::yaml::internal {

struct Mark {
  int line = 1;    // from 1
  int column = 1;  // from 1, in bytes
};

enum class Kind { kNull, kPlain, kQuoted, kList, kMap };

struct Value {
  Kind kind = Kind::kNull;
  Mark mark;
  std::string text;               // scalars
  std::vector<Value> items;       // lists; map values
  std::vector<std::string> keys;  // maps: one per item
  std::vector<Mark> key_marks;    // maps: one per item
  std::string name;               // for messages, "`store`"; "the document" for the root
  // Reading a map is what decides which of its keys are known.
  mutable bool read_as_map = false;
  mutable bool any_key = false;
  mutable std::vector<std::string> asked;
};

struct Tree {
  struct Problem {
    Mark mark;
    std::string message;
  };
  std::string file;
  Value root;
  std::vector<Problem> problems;
  bool broken = false;  // the text could not be parsed: what is missing then is no further problem

  void Add(Mark mark, std::string message) {
    if (!broken) problems.push_back({mark, std::move(message)});
  }
};

inline constexpr size_t kTextBytesMax = 1u << 20;
inline constexpr int kDepthMax = 64;

// Fills `tree` from `text`; problems go into it. On a syntax error the root is an empty map and
// `broken` is set.
void Parse(absl::string_view text, Tree* tree);

}  // namespace foreshock::yaml::internal
