// A checkpoint directory: config.json and one model.safetensors, or several files under
// model.safetensors.index.json. Only headers are read; the files stay open.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint("/models/olmoe"));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proxy/file.h"
#include "proxy/safetensors.h"

namespace foreshock::proxy {

constexpr char kIndexName[] = "model.safetensors.index.json";

struct Shard {
  std::string name;  // within the directory
  InputFile file;
  Header header;
};

struct Checkpoint {
  std::string directory;
  nlohmann::ordered_json config;
  bool indexed = false;
  std::vector<Shard> shards;  // by name; no tensor name comes twice
  std::string sha256;         // of config, index and all headers: the identity of the source

  uint64_t bytes() const;  // of all tensors
};

absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& directory);

}  // namespace foreshock::proxy
