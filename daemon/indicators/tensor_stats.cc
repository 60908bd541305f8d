#include "daemon/indicators/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/indicators/notes.h"

namespace foreshock::indicators {
namespace {

// Moments may disagree by their own rounding in float32.
constexpr double kMomentTolerance = 1e-5;

struct Moments {
  uint64_t count = 0;
  uint64_t nonfinite = 0;
  double min = INFINITY;
  double max = -INFINITY;
  double mean_sum = 0;
  double square_sum = 0;
  double input_square_sum = 0;
  uint64_t input_count = 0;
  std::optional<double> stable_rank;
  double rms() const { return std::sqrt(square_sum / static_cast<double>(count)); }
};

// Layer and name: shards from several ranks meet here.
using Tensors = std::map<std::pair<int32_t, std::string>, Moments>;

void Accumulate(const model::TensorShard& shard, Moments* sum) {
  sum->nonfinite += shard.nan_count() + shard.inf_count();
  if (shard.count() == 0) return;
  const double count = static_cast<double>(shard.count());
  sum->count += shard.count();
  sum->min = std::min(sum->min, shard.min());
  sum->max = std::max(sum->max, shard.max());
  sum->mean_sum += count * shard.mean();
  sum->square_sum += count * shard.rms() * shard.rms();
  if (shard.has_input_rms()) {
    sum->input_square_sum += count * shard.input_rms() * shard.input_rms();
    sum->input_count += shard.count();
  }
  // One matrix cut over ranks has no common stable rank: the lowest says most.
  if (shard.has_stable_rank()) {
    sum->stable_rank = std::min(sum->stable_rank.value_or(INFINITY), shard.stable_rank());
  }
}

void Write(int32_t layer, const std::string& name, const Moments& moments, SampleWriter* writer) {
  const auto add = [&](absl::string_view id, double value) {
    writer->AddTensor(id, layer, name, value);
  };
  if (moments.nonfinite > 0) add("tensor.nonfinite", static_cast<double>(moments.nonfinite));
  if (moments.count == 0) {
    writer->AddUndefined("tensor.rms", "no_finite_elements");
    return;
  }
  const double mean = moments.mean_sum / static_cast<double>(moments.count);
  const double rms = moments.rms();
  const double absmax = std::max(std::abs(moments.min), std::abs(moments.max));
  add("tensor.absmax", absmax);
  add("tensor.rms", rms);
  add("tensor.mean", mean);
  add("tensor.std", std::sqrt(std::max(0.0, (rms - mean) * (rms + mean))));
  if (rms > 0) {
    add("tensor.peak_ratio", std::max(1.0, absmax / rms));
  } else {
    writer->AddUndefined("tensor.peak_ratio", "zero_rms");
  }
  if (moments.stable_rank.has_value()) add("tensor.stable_rank", *moments.stable_rank);
  if (moments.input_count == 0) return;
  const double input =
      std::sqrt(moments.input_square_sum / static_cast<double>(moments.input_count));
  if (input > 0) {
    add("tensor.gain", rms / input);
  } else {
    writer->AddUndefined("tensor.gain", "zero_input_rms");
  }
}

void WriteUpdateRatios(const Tensors& tensors, SampleWriter* writer) {
  for (const auto& [key, update] : tensors) {
    const auto& [layer, name] = key;
    if (!absl::StartsWith(name, "update/") || update.count == 0) continue;
    const std::string stem(absl::StripPrefix(name, "update/"));
    const auto param = tensors.find({layer, absl::StrCat("param/", stem)});
    if (param == tensors.end() || param->second.count == 0) continue;
    if (param->second.rms() > 0) {
      writer->AddTensor("tensor.update_ratio", layer, stem, update.rms() / param->second.rms());
    } else {
      writer->AddUndefined("tensor.update_ratio", "zero_rms");
    }
  }
}

absl::Status Check(const v1::TensorStats& stats, const std::string& name) {
  if (stats.count() == 0) return absl::OkStatus();
  const double slack = kMomentTolerance * (std::abs(stats.rms()) + std::abs(stats.mean()));
  if (stats.min() > stats.max() || stats.rms() + slack < std::abs(stats.mean())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor_stats of ", name, ": min ", stats.min(), ", max ", stats.max(), ", mean ",
        stats.mean(), ", rms ", stats.rms(), "; allowed are min <= max and |mean| <= rms"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SummariseTensorStats(const v1::TensorStatsBatch& batch,
                                  const SummariseContext& context, model::StepShards* out) {
  for (const v1::TensorStats& stats : batch.stats()) {
    const auto declared = context.names.tensors.find(stats.id());
    if (declared == context.names.tensors.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor id ", stats.id(), " was never declared on this stream"));
    }
    if (absl::Status status = Check(stats, declared->second.name()); !status.ok()) return status;
  }
  for (const v1::TensorStats& stats : batch.stats()) {
    const v1::TensorDeclaration& declared = context.names.tensors.at(stats.id());
    const int32_t layer =
        declared.has_layer() ? static_cast<int32_t>(declared.layer()) : model::kNoLayer;
    AddNonFinite(context, declared.name(), layer, -1, stats.nan_count() + stats.inf_count(), out);
    model::TensorShard* shard = out->add_tensors();
    shard->set_name(declared.name());
    shard->set_layer(layer);
    shard->set_rank(context.sender.rank);
    shard->set_nan_count(stats.nan_count());
    shard->set_inf_count(stats.inf_count());
    uint64_t bad = 0;  // moments that are themselves no numbers
    for (double x : {stats.min(), stats.max(), stats.mean(), stats.rms()}) {
      bad += std::isfinite(x) ? 0 : 1;
    }
    AddNonFinite(context, declared.name(), layer, -1, stats.count() > 0 ? bad : 0, out);
    if (bad > 0) continue;
    shard->set_count(stats.count());
    shard->set_min(stats.min());
    shard->set_max(stats.max());
    shard->set_mean(stats.mean());
    shard->set_rms(stats.rms());
    if (stats.has_stable_rank() && std::isfinite(stats.stable_rank())) {
      shard->set_stable_rank(stats.stable_rank());
    }
    if (stats.has_input_rms() && std::isfinite(stats.input_rms())) {
      shard->set_input_rms(stats.input_rms());
    }
  }
  return absl::OkStatus();
}

void FinishTensorStats(const model::StepShards& merged, SampleWriter* writer) {
  Tensors tensors;
  for (const model::TensorShard& shard : merged.tensors()) {
    Accumulate(shard, &tensors[{shard.layer(), shard.name()}]);
  }
  for (const auto& [key, moments] : tensors) Write(key.first, key.second, moments, writer);
  WriteUpdateRatios(tensors, writer);
}

}  // namespace foreshock::indicators
