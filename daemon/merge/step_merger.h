// Merges what the ranks said about one step. Additive: counts, sums and maxima, never averages of
// averages; idempotent: a source that is already in does not count again.
//
//   StepMerger merger;
//   for (const model::ShardReport& report : reports) merger.Add(report);
//   Finish(merger.train(), ...);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/model/shards.pb.h"

namespace foreshock {

// Thread-compatible.
class StepMerger {
 public:
  void Add(const model::ShardReport& report);

  const model::StepShards& train() const { return train_.shards; }
  const model::StepShards& eval() const { return eval_.shards; }
  bool has_eval() const { return has_eval_; }

  int64_t time_unix_ns() const { return time_unix_ns_; }  // newest report's
  uint64_t tokens() const { return train_.shards.tokens(); }
  bool skipped() const { return skipped_; }
  size_t ranks() const { return ranks_.size(); }
  const std::vector<v1::Event>& events() const { return events_; }
  size_t bytes() const { return bytes_; }  // about what it holds

 private:
  // Position of a shard in its repeated field, by (kind, key).
  struct Key {
    int kind = 0;
    int64_t a = 0;
    int64_t b = 0;
    std::string name;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.kind, key.a, key.b, key.name);
    }
  };
  struct Side {
    model::StepShards shards;
    absl::flat_hash_map<Key, int> index;
  };

  static void Merge(const model::StepShards& from, uint32_t rank, Side* into);

  Side train_;
  Side eval_;
  bool has_eval_ = false;
  int64_t time_unix_ns_ = 0;
  bool skipped_ = false;
  absl::flat_hash_set<uint32_t> ranks_;
  std::vector<v1::Event> events_;
  size_t bytes_ = 0;
};

}  // namespace foreshock
