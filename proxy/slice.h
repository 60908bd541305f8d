// What the files of a proxy hold: byte ranges of the source, computed from headers alone before
// anything is written. Every tensor has one action: copied, cut along its expert axis, kept under a
// new number, or dropped.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Cut cut, Slice(checkpoint, model, plan, {}));
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/checkpoint.h"
#include "proxy/model.h"
#include "proxy/plan.h"

namespace foreshock::proxy {

struct SliceOptions {
  bool drop_prediction = false;  // leave the multi-token-prediction layers out
  bool gate_rescale = false;     // write each layer's gate scale into config.json
};

struct Range {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

struct CutShard {
  size_t shard = 0;           // of the checkpoint
  std::string header;         // length and JSON; the source's own where nothing changes
  std::vector<Range> ranges;  // of the source's file, in the order in which they are written
  uint64_t bytes = 0;         // of the whole file
};

struct Tally {
  size_t tensors = 0;
  uint64_t bytes = 0;  // of the source
};

struct Cut {
  std::vector<CutShard> shards;  // a shard of which nothing is left is not here
  std::vector<std::pair<std::string, std::string>> texts;  // name and content: config, index
  std::vector<std::string> side_files;                     // copied: tokenizer and the like
  std::string identity;  // of all of this; the same for the same source, plan and options
  Tally copied;
  Tally sliced;
  Tally kept;
  Tally dropped;
  uint64_t bytes = 0;  // of the shards
  std::vector<std::string> warnings;
};

absl::StatusOr<Cut> Slice(const Checkpoint& checkpoint, const Model& model, const Plan& plan,
                          const SliceOptions& options);

// The ranges of `tensor` that hold the rows `kept` of `experts` along the expert axis, neighbours
// joined. Errors where a row is no whole number of bytes.
absl::StatusOr<std::vector<Range>> RowRanges(const Tensor& tensor, int experts,
                                             const std::vector<int>& kept);

}  // namespace foreshock::proxy
