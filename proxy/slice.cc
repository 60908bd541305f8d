#include "proxy/slice.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "proxy/json.h"

namespace foreshock::proxy {
namespace {

using ConfigJson = nlohmann::ordered_json;

// Weights in other formats: they are of the whole model and would be taken for the proxy's.
constexpr absl::string_view kWeightEndings[] = {".safetensors", ".bin",       ".pt",   ".pth",
                                                ".gguf",        ".ckpt",      ".onnx", ".msgpack",
                                                ".h5",          ".index.json"};

struct CutTensor {
  Tensor tensor;  // with its new name and shape; begin is 0
  std::vector<Range> ranges;
  bool changed = false;
};

void AppendRanges(const std::vector<Range>& from, std::vector<Range>* to) {
  for (const Range& range : from) {
    if (range.bytes == 0) continue;
    if (!to->empty() && to->back().begin + to->back().bytes == range.begin) {
      to->back().bytes += range.bytes;
    } else {
      to->push_back(range);
    }
  }
}

// The new index of an expert; none where it is dropped.
std::optional<size_t> PositionOf(const LayerPlan& layer, int expert) {
  const auto at = std::lower_bound(layer.kept.begin(), layer.kept.end(), expert);
  if (at == layer.kept.end() || *at != expert) return std::nullopt;
  return static_cast<size_t>(at - layer.kept.begin());
}

class Slicer {
 public:
  Slicer(const Checkpoint& checkpoint, const Model& model, const Plan& plan,
         const SliceOptions& options)
      : checkpoint_(checkpoint), model_(model), plan_(plan), options_(options) {
    for (const LayerPlan& layer : plan.layers) layers_[layer.layer] = &layer;
    for (const MoeLayer& moe : model.moe) {
      if (!options.drop_prediction || !moe.prediction) continue;
      const Tensor& router = checkpoint.shards[moe.router_shard].header.tensors[moe.router_tensor];
      dropped_layers_.insert({SplitLayer(router.name).prefix, moe.layer});
    }
  }

  absl::StatusOr<Cut> Run() {
    for (size_t s = 0; s < checkpoint_.shards.size(); ++s) {
      FORESHOCK_RETURN_IF_ERROR(CutShardOf(s));
    }
    FORESHOCK_RETURN_IF_ERROR(CutConfig());
    FORESHOCK_RETURN_IF_ERROR(CutIndex());
    FORESHOCK_RETURN_IF_ERROR(FindSideFiles());
    return std::move(cut_);
  }

 private:
  // What is left of a tensor; none where it is dropped.
  absl::StatusOr<std::optional<CutTensor>> CutOne(const Tensor& tensor, const Role& role) {
    CutTensor result{tensor, {{tensor.begin, tensor.bytes()}}, false};
    const auto count = [&](Tally* tally) {
      ++tally->tensors;
      tally->bytes += tensor.bytes();
    };
    if (!dropped_layers_.empty() &&
        dropped_layers_.contains({SplitLayer(tensor.name).prefix, role.layer})) {
      count(&cut_.dropped);
      return std::optional<CutTensor>();
    }
    if (role.action == Action::kExpert) {
      const std::optional<size_t> position = PositionOf(*layers_.at(role.layer), role.expert);
      count(position ? &cut_.kept : &cut_.dropped);
      if (!position) return std::optional<CutTensor>();
      const std::string old_digits = absl::StrCat(role.expert);
      result.changed = static_cast<int>(*position) != role.expert;
      result.tensor.name.replace(role.digits, old_digits.size(), absl::StrCat(*position));
    } else if (role.action == Action::kCopy) {
      count(&cut_.copied);
    } else {
      count(&cut_.sliced);
      const std::vector<int>& kept = layers_.at(role.layer)->kept;
      FORESHOCK_ASSIGN_OR_RETURN(result.ranges, RowRanges(tensor, model_.experts, kept));
      result.tensor.shape[role.action == Action::kSliceAxis0 ? 0 : 1] = kept.size();
      result.changed = plan_.keep != plan_.experts;
    }
    uint64_t bytes = 0;
    for (const Range& range : result.ranges) bytes += range.bytes;
    result.tensor.begin = 0;
    result.tensor.end = bytes;
    return std::optional<CutTensor>(std::move(result));
  }

  absl::Status CutShardOf(size_t index) {
    const Shard& shard = checkpoint_.shards[index];
    std::vector<CutTensor> left;
    bool changed = false;
    for (size_t t = 0; t < shard.header.tensors.size(); ++t) {
      const Tensor& tensor = shard.header.tensors[t];
      absl::StatusOr<std::optional<CutTensor>> cut = CutOne(tensor, model_.roles[index][t]);
      if (!cut.ok()) {
        return base::Annotate(cut.status(), absl::StrCat(shard.file.path(), ": tensor '",
                                                         tensor.name, "': byte ", tensor.begin));
      }
      changed |= !*cut || (*cut)->changed;
      if (!*cut) continue;
      total_bytes_ += (*cut)->tensor.bytes();
      weight_map_[(*cut)->tensor.name] = shard.name;
      left.push_back(**std::move(cut));
    }
    if (left.empty() && changed) return absl::OkStatus();
    CutShard result;
    result.shard = index;
    if (changed) {
      // Widest first, as the format's own library writes: then each tensor is aligned to its type,
      // which that library's readers need.
      std::stable_sort(left.begin(), left.end(), [](const CutTensor& a, const CutTensor& b) {
        return DtypeBits(a.tensor.dtype) > DtypeBits(b.tensor.dtype);
      });
      Header header;
      header.metadata = shard.header.metadata;
      for (const CutTensor& cut : left) {
        header.tensors.push_back(cut.tensor);
        AppendRanges(cut.ranges, &result.ranges);
      }
      result.header = FormatHeader(header);
    } else {
      const uint64_t data = left.empty() ? shard.file.bytes() : shard.header.tensors[0].begin;
      FORESHOCK_ASSIGN_OR_RETURN(result.header, shard.file.Read(0, data));
      AppendRanges({{data, shard.file.bytes() - data}}, &result.ranges);
    }
    result.bytes = result.header.size();
    for (const Range& range : result.ranges) result.bytes += range.bytes;
    cut_.bytes += result.bytes;
    cut_.shards.push_back(std::move(result));
    return absl::OkStatus();
  }

  absl::Status CutConfig() {
    const std::string path = absl::StrCat(checkpoint_.directory, "/config.json");
    ConfigJson config = checkpoint_.config;
    ConfigJson& section = model_.config_section.empty() ? config : config[model_.config_section];
    section[model_.family.experts] = plan_.keep;
    if (!dropped_layers_.empty()) section["num_nextn_predict_layers"] = 0;
    for (ConfigJson* holder : std::set<ConfigJson*>{&config, &section}) {
      if (holder->contains("quantization_config")) CutNames(&(*holder)["quantization_config"]);
    }
    if (options_.gate_rescale) FORESHOCK_RETURN_IF_ERROR(WriteGateScales(&section));
    if (config == checkpoint_.config) {
      FORESHOCK_ASSIGN_OR_RETURN(std::string text, ReadWhole(path));
      cut_.texts.emplace_back("config.json", std::move(text));
    } else {
      cut_.texts.emplace_back("config.json", config.dump(2) + "\n");
    }
    return absl::OkStatus();
  }

  // Lists of modules and tables by module: names of kept experts get their new number, names of
  // dropped ones go.
  void CutNames(ConfigJson* value) {
    if (value->is_array()) {
      ConfigJson left = ConfigJson::array();
      for (ConfigJson& element : *value) {
        if (element.is_string()) {
          const std::optional<std::string> name = NewModuleName(element.get<std::string>());
          if (name) left.push_back(*name);
        } else {
          CutNames(&element);
          left.push_back(element);
        }
      }
      *value = std::move(left);
    } else if (value->is_object()) {
      ConfigJson left = ConfigJson::object();
      for (auto& [key, element] : value->items()) {
        CutNames(&element);
        const std::optional<std::string> name = NewModuleName(key);
        if (name) left[*name] = element;
      }
      *value = std::move(left);
    }
  }

  std::optional<std::string> NewModuleName(const std::string& name) {
    const LayerName split = SplitLayer(name);
    const auto layer = layers_.find(split.layer);
    if (split.layer >= 0 && layer != layers_.end()) {
      for (const std::string& pattern : model_.family.expert) {
        int expert = 0;
        size_t digits = 0;
        // A module's name ends where a tensor's goes on.
        if (!MatchPattern(pattern, split.rest + ".", &expert, &digits)) continue;
        const std::optional<size_t> position = PositionOf(*layer->second, expert);
        if (!position) return std::nullopt;
        std::string renamed = name;
        renamed.replace(name.size() - split.rest.size() + digits, absl::StrCat(expert).size(),
                        absl::StrCat(*position));
        return renamed;
      }
    }
    const size_t at = name.find("experts");
    if (at != std::string::npos && plan_.keep != plan_.experts &&
        std::any_of(name.begin() + static_cast<std::ptrdiff_t>(at), name.end(),
                    [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); })) {
      cut_.warnings.push_back(
          absl::StrCat("config.json: quantization_config names '", name,
                       "', which is no plain name of an expert's module; it stays as it is"));
    }
    return name;
  }

  absl::Status WriteGateScales(ConfigJson* section) {
    if (model_.renormalised || model_.scoring != "softmax") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--gate-rescale: the routing is ", model_.Routing(),
          "; only gates of a softmax that is not renormalised grow with fewer experts"));
    }
    ConfigJson scales = ConfigJson::object();
    for (const LayerPlan& layer : plan_.layers) {
      if (!layer.kept_probability) {
        return absl::InvalidArgumentError(
            absl::StrCat("plan: layer ", layer.layer,
                         " has no kept_probability; select with a calibration that has "
                         "probability_sum"));
      }
      scales[absl::StrCat(layer.layer)] = *layer.kept_probability;
    }
    (*section)["foreshock_gate_scale"] = scales;
    return absl::OkStatus();
  }

  absl::Status CutIndex() {
    if (!checkpoint_.indexed) return absl::OkStatus();
    const std::string path = absl::StrCat(checkpoint_.directory, "/", kIndexName);
    FORESHOCK_ASSIGN_OR_RETURN(std::string text, ReadWhole(path));
    FORESHOCK_ASSIGN_OR_RETURN(ConfigJson index, ParseOrderedJson(path, text));
    ConfigJson map = weight_map_;
    // The order of the names says nothing.
    if (nlohmann::json(index["weight_map"]) != nlohmann::json(map)) {
      index["metadata"]["total_size"] = total_bytes_;
      index["weight_map"] = std::move(map);
      text = index.dump(2) + "\n";
    }
    cut_.texts.emplace_back(kIndexName, std::move(text));
    return absl::OkStatus();
  }

  absl::Status FindSideFiles() {
    std::set<std::string> known = {"config.json", kIndexName, "plan.json"};
    for (const Shard& shard : checkpoint_.shards) known.insert(shard.name);
    std::vector<std::string> left_out;
    std::error_code error;
    for (std::filesystem::directory_iterator at(checkpoint_.directory, error), end; at != end;
         at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (known.contains(name) || name[0] == '.') continue;
      const bool weights =
          std::any_of(std::begin(kWeightEndings), std::end(kWeightEndings),
                      [&](absl::string_view ending) { return absl::EndsWith(name, ending); });
      std::error_code ignored;
      (weights || !at->is_regular_file(ignored) ? left_out : cut_.side_files).push_back(name);
    }
    if (error) {
      return absl::InternalError(
          absl::StrCat("cannot list ", checkpoint_.directory, ": ", error.message()));
    }
    std::sort(cut_.side_files.begin(), cut_.side_files.end());
    std::sort(left_out.begin(), left_out.end());
    if (!left_out.empty()) {
      cut_.warnings.push_back(
          absl::StrCat("not copied, for they are folders or weights that the index does not name: ",
                       absl::StrJoin(left_out, ", ")));
    }
    return absl::OkStatus();
  }

  const Checkpoint& checkpoint_;
  const Model& model_;
  const Plan& plan_;
  const SliceOptions& options_;
  std::map<int, const LayerPlan*> layers_;
  std::set<std::pair<std::string, int>> dropped_layers_;  // prefix and number
  std::map<std::string, std::string> weight_map_;
  uint64_t total_bytes_ = 0;
  Cut cut_;
};

// The source's files by size and time, for headers do not say which weights follow them.
std::string Identity(const Checkpoint& checkpoint, const Plan& plan, const Cut& cut) {
  std::string text = absl::StrCat("foreshock.slice.v1\nplan ", Sha256(FormatPlan(plan)), "\n");
  for (const auto& [name, content] : cut.texts) {
    absl::StrAppend(&text, name, " ", Sha256(content), "\n");
  }
  for (const CutShard& part : cut.shards) {
    const Shard& shard = checkpoint.shards[part.shard];
    struct stat info {};
    fstat(shard.file.fd(), &info);
    absl::StrAppend(&text, shard.name, " ", Sha256(part.header), " of ", info.st_dev, ":",
                    info.st_ino, ", ", info.st_size, " bytes, ", info.st_mtim.tv_sec, ".",
                    info.st_mtim.tv_nsec, "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::vector<Range>> RowRanges(const Tensor& tensor, int experts,
                                             const std::vector<int>& kept) {
  const auto rows = static_cast<uint64_t>(experts);
  uint64_t bits = static_cast<uint64_t>(DtypeBits(tensor.dtype));
  for (const uint64_t dimension : tensor.shape) bits *= dimension;
  if (bits / rows % 8 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a row of ", tensor.dtype, " [",
                                                   absl::StrJoin(tensor.shape, ", "),
                                                   "] is no whole number of bytes"));
  }
  const uint64_t row = bits / rows / 8;
  std::vector<Range> ranges;
  for (const int expert : kept) {
    AppendRanges({{tensor.begin + static_cast<uint64_t>(expert) * row, row}}, &ranges);
  }
  return ranges;
}

absl::StatusOr<Cut> Slice(const Checkpoint& checkpoint, const Model& model, const Plan& plan,
                          const SliceOptions& options) {
  FORESHOCK_RETURN_IF_ERROR(CheckPlan(plan, checkpoint, model));
  FORESHOCK_ASSIGN_OR_RETURN(Cut cut, Slicer(checkpoint, model, plan, options).Run());
  for (const std::string& warning : CheckKeep(model, plan.keep, 1).warnings) {
    cut.warnings.push_back(warning);
  }
  cut.identity = Identity(checkpoint, plan, cut);
  return cut;
}

}  // namespace foreshock::proxy
