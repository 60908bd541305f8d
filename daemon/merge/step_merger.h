// Merges what the ranks said about one step. Additive: counts, sums and maxima, never averages of
// averages; idempotent: a source that is already in does not count again. Shards that disagree on
// what they measure do not add ("shards_disagree"). Findings, undefined reasons and events have no
// source: sequence numbers keep their report from coming twice (pipeline).
// tests/property/merge_fields_test.cc has the law of every field.
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

namespace foreshock::merge {

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
  // About what it holds in memory.
  size_t bytes() const { return train_.bytes + eval_.bytes; }

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
  // A source that is in the shard at `position` of its repeated field.
  struct SourceKey {
    int kind = 0;
    int position = 0;
    uint64_t id = 0;
    friend bool operator==(const SourceKey&, const SourceKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const SourceKey& key) {
      return H::combine(std::move(h), key.kind, key.position, key.id);
    }
  };
  struct Side {
    model::StepShards shards;  // without the sources
    absl::flat_hash_map<Key, int> index;
    absl::flat_hash_map<SourceKey, uint64_t> sources;  // to the fingerprint; thousands a shard
    size_t bytes = 0;
  };

  static void Merge(const model::StepShards& from, uint32_t rank, Side* into);
  static void MergeUndefined(const model::UndefinedShard& shard, Side* into);
  template <typename Shard>
  static void MergeSourced(const google::protobuf::RepeatedPtrField<Shard>& from, int kind,
                           const char* payload, uint32_t rank,
                           google::protobuf::RepeatedPtrField<Shard>* into, Side* side);
  // True if every source of the shard is new at that position.
  template <typename Shard>
  static bool Disjoint(const Shard& shard, int kind, int position, const char* payload,
                       uint32_t rank, Side* side);

  Side train_;
  Side eval_;
  bool has_eval_ = false;
  int64_t time_unix_ns_ = 0;
  bool skipped_ = false;
  absl::flat_hash_set<uint32_t> ranks_;
  std::vector<v1::Event> events_;
};

}  // namespace foreshock::merge
