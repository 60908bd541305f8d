#include "daemon/indicators/scalars.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/notes.h"

namespace foreshock::indicators {
namespace {

// The values of one name from several ranks as one; they come sorted by rank. Empty: a mean whose
// weights are all 0.
std::optional<double> Reduce(const std::vector<const model::ScalarShard*>& values) {
  double sum = 0, weighted = 0, weight = 0;
  double most = values[0]->value(), least = values[0]->value();
  for (const model::ScalarShard* shard : values) {
    sum += shard->value();
    weighted += shard->value() * shard->weight();
    weight += shard->weight();
    most = std::max(most, shard->value());
    least = std::min(least, shard->value());
  }
  switch (values[0]->reduction()) {
    case v1::REDUCTION_SUM:
      return sum;
    case v1::REDUCTION_MEAN:
      if (weight <= 0) return std::nullopt;
      return weighted / weight;
    case v1::REDUCTION_MAX:
      return most;
    case v1::REDUCTION_MIN:
      return least;
    default:  // REDUCTION_LAST: the newest of the lowest rank
      break;
  }
  const model::ScalarShard* last = values[0];
  for (const model::ScalarShard* shard : values) {
    if (shard->rank() == last->rank()) last = shard;
  }
  return last->value();
}

using ByName = std::map<std::string, std::vector<const model::ScalarShard*>>;

void AddDerived(const std::map<std::string, double>& global, SampleWriter* writer) {
  const auto find = [&](const char* name) -> std::optional<double> {
    const auto found = global.find(name);
    if (found == global.end()) return std::nullopt;
    return found->second;
  };
  const auto ratio = [&](absl::string_view id, std::optional<double> above,
                         std::optional<double> below) {
    if (!above.has_value() || !below.has_value()) return;
    if (*below == 0) {
      writer->AddUndefined(id, "zero_denominator");
    } else {
      writer->Add(id, model::kNoLayer, *above / *below);
    }
  };
  ratio("train.update_ratio", find("update_rms"), find("param_rms"));
  ratio("train.update_per_lr", find("update_rms"), find("lr"));
}

void AddSpikes(const std::map<std::string, double>& global, int64_t step, History* history,
               SampleWriter* writer) {
  for (const char* name : {"loss", "grad_norm"}) {
    const auto found = global.find(name);
    if (found == global.end()) continue;
    history->ObserveScalar(name, step, found->second);
    const std::string id = absl::StrCat("train.", name, ".spike_score");
    if (const auto score = history->SpikeScore(name)) {
      writer->Add(id, model::kNoLayer, *score);
    } else {
      writer->AddUndefined(id, "warming_up");
    }
  }
  if (global.count("loss") == 0) return;
  if (const auto rate = history->SpikeRate()) {
    writer->Add("train.spike_rate", model::kNoLayer, *rate);
  } else {
    writer->AddUndefined("train.spike_rate", "warming_up");
  }
}

void AddStepTime(const model::StepRow& row, History* history, SampleWriter* writer) {
  history->ObserveTime(row.step, row.time_unix_ns);
  const History::StepSeconds seconds = history->LastStepSeconds();
  if (seconds.value.has_value()) {
    writer->Add("train.step_seconds", model::kNoLayer, *seconds.value);
  } else {
    writer->AddUndefined("train.step_seconds", seconds.undefined);
  }
}

}  // namespace

absl::Status SummariseScalars(const v1::ScalarBatch& batch, const SummariseContext& context,
                              model::StepShards* out) {
  for (int i = 0; i < batch.ids_size(); ++i) {
    if (!context.names.scalars.contains(batch.ids(i))) {
      return absl::InvalidArgumentError(
          absl::StrCat("scalar id ", batch.ids(i), " was never declared on this stream"));
    }
  }
  for (int i = 0; i < batch.ids_size(); ++i) {
    const v1::ScalarDeclaration& declared = context.names.scalars.at(batch.ids(i));
    const double weight = i < batch.weights_size() ? batch.weights(i) : 1.0;
    if (!std::isfinite(batch.values(i)) || !std::isfinite(weight)) {
      AddNonFinite(context, declared.name(), model::kNoLayer, -1, 1, out);
      continue;
    }
    model::ScalarShard* shard = out->add_scalars();
    shard->set_name(declared.name());
    shard->set_scope(declared.scope());
    shard->set_reduction(declared.reduction());
    shard->set_rank(context.sender.rank);
    shard->set_value(batch.values(i));
    shard->set_weight(weight);
  }
  return absl::OkStatus();
}

void FinishScalars(const model::StepShards& merged, const model::StepRow& row, History* history,
                   SampleWriter* writer) {
  ByName global;
  std::map<std::pair<std::string, uint32_t>, std::vector<const model::ScalarShard*>> per_rank;
  for (const model::ScalarShard& shard : merged.scalars()) {
    if (shard.scope() == v1::SCOPE_RANK) {
      per_rank[{shard.name(), shard.rank()}].push_back(&shard);
    } else {
      global[shard.name()].push_back(&shard);
    }
  }
  std::map<std::string, double> values;
  for (auto& [name, shards] : global) {
    std::stable_sort(shards.begin(), shards.end(),
                     [](const auto* a, const auto* b) { return a->rank() < b->rank(); });
    const std::string id = absl::StrCat("train.", name);
    if (const auto value = Reduce(shards)) {
      writer->Add(id, model::kNoLayer, *value);
      values[name] = *value;
    } else {
      writer->AddUndefined(id, "zero_weight");
    }
  }
  for (const auto& [key, shards] : per_rank) {
    const std::string id = absl::StrCat("train.", key.first);
    if (const auto value = Reduce(shards)) {
      writer->AddUnit(id, model::kNoLayer, model::Unit::kRank, key.second, *value);
    } else {
      writer->AddUndefined(id, "zero_weight");
    }
  }
  if (merged.tokens() > 0) {
    writer->Add("train.tokens_total", model::kNoLayer, static_cast<double>(merged.tokens()));
  }
  AddDerived(values, writer);
  if (history == nullptr) return;
  AddSpikes(values, row.step, history, writer);
  AddStepTime(row, history, writer);
}

void FinishFindings(const model::StepShards& merged, SampleWriter* writer,
                    model::ClosedStep* closed) {
  std::map<std::string, uint64_t> nonfinite;
  for (const model::FindingShard& shard : merged.findings()) {
    const auto kind = static_cast<model::Finding::Kind>(shard.kind());
    closed->findings.push_back(
        {kind, shard.name(), shard.rank(), shard.layer(), shard.head(), shard.count()});
    if (kind == model::Finding::Kind::kNonFinite) nonfinite[shard.name()] += shard.count();
  }
  for (const auto& [name, count] : nonfinite) {
    writer->AddTensor("train.nonfinite", model::kNoLayer, name, static_cast<double>(count));
  }
}

}  // namespace foreshock::indicators
