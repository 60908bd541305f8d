// Weight snapshots of one rank in one attempt: the base that the next QkFactors or RouterWeights is
// subtracted from. Not durable: after a restart the next window is undefined ("no_base").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::indicators {

// One weight as it was sent (little-endian bytes of `dtype`), with the step it was taken at. What
// the elements are is for the module that put it there to say.
struct WeightSnapshot {
  int64_t step = 0;
  v1::DType dtype = v1::DTYPE_F64;
  std::string bytes;
};

// Thread-compatible. Bounded in bytes: when a snapshot does not fit it is not kept and Put says so,
// so that the next window is undefined rather than wrong.
class Snapshots {
 public:
  struct Options {
    size_t bytes_max = 256u << 20;
  };
  enum class Kind : uint8_t { kQ, kK, kRouter };
  struct Key {
    Kind kind = Kind::kQ;
    uint32_t layer = 0;
    uint32_t index = 0;  // query head, first query head that uses the key head, or first row
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.kind, key.layer, key.index);
    }
  };

  explicit Snapshots(Options options) : options_(options) {}

  // nullptr when there is none; valid until the next Put or Erase.
  const WeightSnapshot* Find(const Key& key) const;
  // False when it did not fit; an older snapshot under `key` is dropped then.
  bool Put(const Key& key, WeightSnapshot snapshot);
  void Erase(const Key& key);
  size_t bytes() const { return bytes_; }

 private:
  const Options options_;
  absl::flat_hash_map<Key, WeightSnapshot> by_key_;
  size_t bytes_ = 0;
};

}  // namespace foreshock::indicators
