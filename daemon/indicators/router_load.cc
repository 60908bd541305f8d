#include "daemon/indicators/router_load.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {
namespace {

// The shards of one layer side by side.
struct LayerLoad {
  std::vector<double> counts;
  std::vector<double> dropped;
  std::vector<double> mass;
  std::vector<bool> covered;
  bool overlap = false;
  bool dropped_known = true;
  bool mass_known = true;
};

LayerLoad Join(const std::vector<const model::LoadShard*>& shards, size_t experts) {
  for (const model::LoadShard* shard : shards) {
    experts = std::max<size_t>(experts, shard->expert_offset() + shard->counts_size());
  }
  LayerLoad load;
  for (auto* values : {&load.counts, &load.dropped, &load.mass}) values->resize(experts);
  load.covered.resize(experts);
  for (const model::LoadShard* shard : shards) {
    const size_t offset = shard->expert_offset();
    const bool dropped = shard->dropped_size() == shard->counts_size();
    const bool mass = shard->gate_mass_size() == shard->counts_size();
    load.dropped_known = load.dropped_known && dropped;
    load.mass_known = load.mass_known && mass;
    for (int i = 0; i < shard->counts_size(); ++i) {
      load.overlap = load.overlap || load.covered[offset + i];
      load.covered[offset + i] = true;
      load.counts[offset + i] = static_cast<double>(shard->counts(i));
      if (dropped) load.dropped[offset + i] = static_cast<double>(shard->dropped(i));
      if (mass) load.mass[offset + i] = shard->gate_mass(i);
    }
  }
  return load;
}

double SumOf(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum;
}

// More experts than any model has; a bound on what an offset can make Join allocate.
constexpr uint64_t kExpertsMax = 1u << 20;

absl::Status NegativeError(const v1::RouterLoad& load, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("router_load of layer ", load.layer(), ": ", what,
                                                 " has a negative element; allowed are >= 0"));
}

}  // namespace

absl::Status SummariseLoad(const v1::RouterLoad& load, const SummariseContext& context,
                           model::StepShards* out) {
  const std::vector<int64_t> counts = DecodeInts(load.counts());
  const std::vector<int64_t> dropped = DecodeInts(load.dropped());
  const TensorDoubles mass = DecodeDoubles(load.gate_mass());
  const uint64_t end = uint64_t{load.expert_offset()} + counts.size();
  const uint64_t experts = context.sender.model.experts();
  if (end > (experts == 0 ? kExpertsMax : experts)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "router_load of layer ", load.layer(), ": experts ", load.expert_offset(), "..", end - 1,
        " where the model has ", experts == 0 ? kExpertsMax : experts, " at most"));
  }
  const auto negative = [](auto value) { return value < 0; };
  if (std::any_of(counts.begin(), counts.end(), negative)) return NegativeError(load, "counts");
  if (std::any_of(dropped.begin(), dropped.end(), negative)) return NegativeError(load, "dropped");
  if (mass.nonfinite == 0 && std::any_of(mass.values.begin(), mass.values.end(), negative)) {
    return NegativeError(load, "gate_mass");
  }
  const auto layer = static_cast<int32_t>(load.layer());
  AddNonFinite(context, "router_load.gate_mass", layer, -1, mass.nonfinite, out);
  model::LoadShard* shard = out->add_load();
  shard->set_layer(load.layer());
  shard->set_expert_offset(load.expert_offset());
  model::Source* source = shard->add_sources();
  source->set_id(TokenShardOf(load, context.sender.coordinates));
  source->set_fingerprint(
      Fingerprint({load.counts().data(), load.dropped().data(), load.gate_mass().data()}));
  shard->mutable_counts()->Add(counts.begin(), counts.end());
  shard->mutable_dropped()->Add(dropped.begin(), dropped.end());
  if (mass.nonfinite == 0) {
    shard->mutable_gate_mass()->Add(mass.values.begin(), mass.values.end());
  }
  return absl::OkStatus();
}

bool AddLoadStatistics(absl::string_view family, int32_t layer, absl::Span<const double> counts,
                       uint32_t top_k, uint32_t flags, SampleWriter* writer) {
  double total = 0;
  for (double count : counts) total += count;
  if (!(total > 0)) {
    writer->AddUndefined(family, "no_assignments");
    return false;
  }
  const double experts = static_cast<double>(counts.size());
  double most = 0, least = INFINITY, deviation = 0, square = 0, entropy = 0;
  for (double count : counts) {
    const double share = count / total;
    const double excess = experts * share - 1;
    most = std::max(most, excess + 1);
    least = std::min(least, excess + 1);
    deviation += std::abs(excess);
    square += excess * excess;
    if (share > 0) entropy -= share * std::log(share);
  }
  const auto add = [&](absl::string_view name, double value) {
    writer->Add(absl::StrCat(family, ".", name), layer, value, flags);
  };
  add("max_violation", most - 1);
  add("min_violation", least - 1);
  add("mean_violation", deviation / experts);
  add("cv", std::sqrt(square / experts));
  entropy = std::max(entropy, 0.0);
  add("entropy", entropy);
  add("effective_experts", std::exp(entropy));
  if (counts.size() > 1) {
    add("entropy_ratio", entropy / std::log(experts));
  } else {
    writer->AddUndefined(absl::StrCat(family, ".entropy_ratio"), "single_expert");
  }
  if (top_k == 0) {
    writer->AddUndefined(absl::StrCat(family, ".max_violation_ratio"), "unknown_top_k");
  } else if (top_k >= counts.size()) {
    writer->AddUndefined(absl::StrCat(family, ".max_violation_ratio"), "all_experts_chosen");
  } else {
    add("max_violation_ratio", (most - 1) / (experts / top_k - 1));
  }
  return true;
}

void FinishLoad(const model::StepShards& merged, const v1::ModelShape& model, int64_t step,
                History* history, SampleWriter* writer) {
  std::map<uint32_t, std::vector<const model::LoadShard*>> by_layer;
  for (const model::LoadShard& shard : merged.load()) by_layer[shard.layer()].push_back(&shard);
  for (const auto& [layer_number, shards] : by_layer) {
    const auto layer = static_cast<int32_t>(layer_number);
    const LayerLoad load = Join(shards, model.experts());
    if (load.overlap) {
      writer->AddUndefined("load", "overlapping_experts");
      continue;
    }
    if (std::find(load.covered.begin(), load.covered.end(), false) != load.covered.end()) {
      writer->AddUndefined("load", "experts_missing");
      continue;
    }
    const double total = SumOf(load.counts);
    if (!AddLoadStatistics("load", layer, load.counts, model.top_k(), 0, writer)) continue;
    const double experts = static_cast<double>(load.counts.size());
    for (size_t e = 0; e < load.counts.size(); ++e) {
      writer->AddUnit("load.share", layer, model::Unit::kExpert, static_cast<int64_t>(e),
                      experts * load.counts[e] / total);
    }
    if (load.dropped_known) writer->Add("load.drop_fraction", layer, SumOf(load.dropped) / total);
    if (load.mass_known) {
      AddLoadStatistics("load.mass", layer, load.mass, model.top_k(), 0, writer);
    }
    if (history == nullptr) continue;
    history->ObserveLoad(layer_number, step, load.counts);
    if (const auto dead = history->DeadFraction(layer_number)) {
      writer->Add("load.dead_fraction", layer, *dead);
    } else {
      writer->AddUndefined("load.dead_fraction", "warming_up");
    }
  }
}

}  // namespace foreshock::indicators
