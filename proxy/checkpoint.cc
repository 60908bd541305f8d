#include "proxy/checkpoint.h"

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "proxy/json.h"

namespace foreshock::proxy {
namespace {

using WeightMap = std::map<std::string, std::string>;  // tensor to shard

absl::StatusOr<WeightMap> ParseIndex(const std::string& path, const std::string& text) {
  FORESHOCK_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJson(path, text));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has no object 'weight_map'"));
  }
  WeightMap map;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor '", tensor, "': its shard is not a text"));
    }
    const auto name = shard.get<std::string>();
    if (name.empty() || name[0] == '.' || absl::StrContains(name, '/') ||
        !absl::EndsWith(name, ".safetensors")) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor '", tensor, "': shard '", name,
                       "' is not the name of a .safetensors file in the same directory"));
    }
    map[tensor] = name;
  }
  if (map.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": names no tensor"));
  return map;
}

// Index and headers must name the same tensors in the same places.
absl::Status CheckIndex(const std::string& path, const WeightMap& map,
                        const std::vector<Shard>& shards) {
  size_t found = 0;
  for (const Shard& shard : shards) {
    for (const Tensor& tensor : shard.header.tensors) {
      const auto entry = map.find(tensor.name);
      if (entry == map.end() || entry->second != shard.name) {
        return absl::InvalidArgumentError(absl::StrCat(
            shard.file.path(), ": tensor '", tensor.name, "': byte ", tensor.begin, ": ",
            entry == map.end() ? "the index does not name it"
                               : absl::StrCat("the index says that it is in ", entry->second)));
      }
      ++found;
    }
  }
  if (found == map.size()) return absl::OkStatus();
  absl::flat_hash_map<absl::string_view, bool> there;
  for (const Shard& shard : shards) {
    for (const Tensor& tensor : shard.header.tensors) there[tensor.name] = true;
  }
  for (const auto& [tensor, shard] : map) {
    if (!there.contains(tensor)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor '", tensor, "': ", shard, " does not have it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t Checkpoint::bytes() const {
  uint64_t sum = 0;
  for (const Shard& shard : shards) {
    for (const Tensor& tensor : shard.header.tensors) sum += tensor.bytes();
  }
  return sum;
}

absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.directory = directory;
  const auto file = [&](const std::string& name) { return absl::StrCat(directory, "/", name); };
  FORESHOCK_ASSIGN_OR_RETURN(const std::string config, ReadWhole(file("config.json")));
  FORESHOCK_ASSIGN_OR_RETURN(checkpoint.config, ParseOrderedJson(file("config.json"), config));
  if (!checkpoint.config.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file("config.json"), ": is not an object"));
  }
  std::string identity = absl::StrCat("config.json ", Sha256(config), "\n");
  std::error_code ignored;
  checkpoint.indexed = std::filesystem::exists(file(kIndexName), ignored);
  WeightMap map;
  std::set<std::string> names = {"model.safetensors"};
  if (checkpoint.indexed) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadWhole(file(kIndexName)));
    FORESHOCK_ASSIGN_OR_RETURN(map, ParseIndex(file(kIndexName), text));
    absl::StrAppend(&identity, kIndexName, " ", Sha256(text), "\n");
    names.clear();
    for (const auto& [tensor, shard] : map) names.insert(shard);
  }
  for (const std::string& name : names) {
    FORESHOCK_ASSIGN_OR_RETURN(InputFile shard, InputFile::Open(file(name)));
    FORESHOCK_ASSIGN_OR_RETURN(Header header, ReadHeader(shard));
    absl::StrAppend(&identity, name, " ", Sha256(FormatHeader(header)), "\n");
    checkpoint.shards.push_back({name, std::move(shard), std::move(header)});
  }
  if (checkpoint.indexed) {
    FORESHOCK_RETURN_IF_ERROR(CheckIndex(file(kIndexName), map, checkpoint.shards));
  }
  checkpoint.sha256 = Sha256(identity);
  return checkpoint;
}

}  // namespace foreshock::proxy
