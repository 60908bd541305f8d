// Objects as bytes and back: a class lists its fields once, and the list serves both ways.
//
//   void RateLimit::Fields(Archive* archive) { archive->Take(&starts_, &flapping_); }
//
//   Archive writer;
//   limit.Fields(&writer);
//   Archive reader(writer.bytes());
//   other.Fields(&reader);
//   if (!reader.AtEnd()) Refuse();   // other bytes than a writer with the same fields leaves
//
// Bytes carry no names and no types: who keeps them must keep a version beside them.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace foreshock::base {

class Archive;

template <typename T>
concept HasFields = requires(T value, Archive* archive) {
  value.Fields(archive);
};

// Thread-compatible.
class Archive {
 public:
  Archive() : reading_(false) {}                                             // writes
  explicit Archive(absl::string_view bytes) : reading_(true), in_(bytes) {}  // reads; a view

  bool reading() const { return reading_; }
  const std::string& bytes() const { return out_; }
  // Reading: everything was there, and nothing is left. After bytes that cannot be, all reads give
  // zeros and empty containers.
  bool AtEnd() const { return ok_ && in_.empty(); }

  template <typename... T>
  void Take(T*... fields) {
    (Field(fields), ...);
  }
  // How many elements follow, of which each takes a byte or more.
  void Count(size_t* count);

 private:
  void Varint(uint64_t* value);
  void Fixed64(uint64_t* value);

  void Field(bool* value);
  void Field(double* value);
  void Field(std::string* value);

  template <std::unsigned_integral T>
  void Field(T* value) {
    uint64_t wide = *value;
    Varint(&wide);
    *value = static_cast<T>(wide);
  }
  // Zigzag, so that small negative ones are short, too.
  template <std::signed_integral T>
  void Field(T* value) {
    const int64_t given = *value;
    uint64_t wide = (static_cast<uint64_t>(given) << 1) ^ static_cast<uint64_t>(given >> 63);
    Varint(&wide);
    *value = static_cast<T>(static_cast<int64_t>(wide >> 1) ^ -static_cast<int64_t>(wide & 1));
  }
  template <typename T>
  requires std::is_enum_v<T>
  void Field(T* value) {
    auto number = static_cast<std::underlying_type_t<T>>(*value);
    Field(&number);
    *value = static_cast<T>(number);
  }
  template <HasFields T>
  void Field(T* value) {
    value->Fields(this);
  }

  template <typename T>
  void Field(std::optional<T>* value) {
    bool there = value->has_value();
    Field(&there);
    if (reading_) *value = there ? std::optional<T>(T()) : std::nullopt;
    if (there) Field(&**value);
  }
  template <typename A, typename B>
  void Field(std::pair<A, B>* value) {
    Take(&value->first, &value->second);
  }
  template <typename T, size_t N>
  void Field(std::array<T, N>* value) {
    for (T& element : *value) Field(&element);
  }
  template <typename T>
  void Field(std::vector<T>* value) {
    Sequence(value);
  }
  template <typename T>
  void Field(std::deque<T>* value) {
    Sequence(value);
  }
  void Field(std::vector<bool>* value);

  // Containers without an order are written in that of their keys.
  template <typename K, typename V>
  void Field(std::map<K, V>* value) {
    std::vector<std::pair<K, V>> entries;
    if (!reading_) entries.assign(value->begin(), value->end());
    Field(&entries);
    if (reading_) *value = std::map<K, V>(entries.begin(), entries.end());
  }
  template <typename K, typename V>
  void Field(absl::flat_hash_map<K, V>* value) {
    std::map<K, V> ordered;
    if (!reading_) ordered.insert(value->begin(), value->end());
    Field(&ordered);
    if (reading_) *value = absl::flat_hash_map<K, V>(ordered.begin(), ordered.end());
  }
  template <typename T>
  void Field(absl::flat_hash_set<T>* value) {
    std::vector<T> ordered;
    if (!reading_) ordered.assign(value->begin(), value->end());
    std::sort(ordered.begin(), ordered.end());
    Field(&ordered);
    if (reading_) *value = absl::flat_hash_set<T>(ordered.begin(), ordered.end());
  }

  template <typename Container>
  void Sequence(Container* value) {
    size_t count = value->size();
    Count(&count);
    if (reading_) *value = Container(count);
    for (auto& element : *value) Field(&element);
  }

  bool reading_;
  bool ok_ = true;
  std::string out_;
  absl::string_view in_;
};

}  // namespace foreshock::base
