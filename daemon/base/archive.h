// Objects as bytes and back, by cereal: a class lists its fields once, and the list serves both
// ways.
//
//   struct Sum {
//     double value = 0;
//     int64_t base_step = 0;
//     template <typename A>
//     void serialize(A& archive) { archive(value, base_step); }
//   };
//
//   Archive writer;
//   writer.Take(&sum, &names);
//   Archive reader(writer.bytes());
//   reader.Take(&other, &other_names);
//   if (!reader.AtEnd()) Refuse();   // other bytes than a writer with the same fields leaves
//
// A virtual class takes the Archive itself: `virtual void Fields(Archive* archive)`. Bytes carry no
// names and no types, so who keeps them keeps a version beside them.
#pragma once

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/deque.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

// Containers without an order are written in that of their keys.
namespace cereal {

template <typename A, typename K, typename V>
void save(A& archive, const absl::flat_hash_map<K, V>& map) {
  archive(std::map<K, V>(map.begin(), map.end()));
}
template <typename A, typename K, typename V>
void load(A& archive, absl::flat_hash_map<K, V>& map) {
  std::map<K, V> ordered;
  archive(ordered);
  map = {ordered.begin(), ordered.end()};
}
template <typename A, typename K>
void save(A& archive, const absl::flat_hash_set<K>& set) {
  archive(std::set<K>(set.begin(), set.end()));
}
template <typename A, typename K>
void load(A& archive, absl::flat_hash_set<K>& set) {
  std::set<K> ordered;
  archive(ordered);
  set = {ordered.begin(), ordered.end()};
}

}  // namespace cereal

namespace foreshock::base {

// Thread-compatible.
class Archive {
 public:
  Archive() { writer_.emplace(stream_); }                                    // writes
  explicit Archive(absl::string_view bytes) : stream_(std::string(bytes)) {  // reads
    Try([this] { reader_.emplace(stream_); });
  }

  bool reading() const { return !writer_.has_value(); }
  std::string bytes() const { return stream_.str(); }
  // Reading: false after bytes that cannot be. Fields from there on are left as they are.
  bool ok() const { return ok_; }
  // Reading: everything was there, and nothing is left.
  bool AtEnd() { return ok_ && stream_.peek() == std::stringstream::traits_type::eof(); }

  template <typename... T>
  void Take(T*... fields) {
    if (!ok_) return;
    Try([&] {
      if (writer_.has_value()) {
        (*writer_)(*fields...);
      } else {
        (*reader_)(*fields...);
      }
    });
  }

 private:
  template <typename Call>
  void Try(const Call& call) {
    try {
      call();
    } catch (const std::exception&) {  // cereal's, or of a container that cannot be so large
      ok_ = false;
    }
  }

  std::stringstream stream_;
  std::optional<cereal::PortableBinaryOutputArchive> writer_;
  std::optional<cereal::PortableBinaryInputArchive> reader_;
  bool ok_ = true;
};

}  // namespace foreshock::base
