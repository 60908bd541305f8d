#include "daemon/indicators/coactivation.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {

absl::Status SummariseCoactivation(const v1::RouterCoactivation& coactivation,
                                   const SummariseContext& context, model::StepShards* out) {
  const std::vector<int64_t> pairs = DecodeInts(coactivation.pair_counts());
  const TensorDoubles mass = DecodeDoubles(coactivation.gate_mass());
  const uint64_t experts = coactivation.experts();
  const auto error = [&](const std::string& problem) {
    return absl::InvalidArgumentError(
        absl::StrCat("router_coactivation of layer ", coactivation.layer(), ": ", problem));
  };
  if (pairs.size() != experts * (experts - (experts > 0 ? 1 : 0)) / 2 ||
      (IsPresent(coactivation.gate_mass()) && mass.values.size() != experts)) {
    return error(absl::StrCat(pairs.size(), " pair counts and ", mass.values.size(),
                              " gate masses for ", experts, " experts; E(E-1)/2 and E are needed"));
  }
  if (std::any_of(pairs.begin(), pairs.end(), [](int64_t count) { return count < 0; })) {
    return error("a pair count is negative");
  }
  AddNonFinite(context, "router_coactivation.gate_mass", static_cast<int32_t>(coactivation.layer()),
               -1, mass.nonfinite, out);
  model::CoactivationShard* shard = out->add_coactivation();
  shard->set_layer(coactivation.layer());
  shard->set_experts(coactivation.experts());
  model::Source* source = shard->add_sources();
  source->set_id(TokenShardOf(coactivation, context.sender.coordinates));
  source->set_fingerprint(
      Fingerprint({coactivation.pair_counts().data(), coactivation.gate_mass().data()}));
  shard->mutable_pair_counts()->Add(pairs.begin(), pairs.end());
  if (mass.nonfinite == 0) {
    shard->mutable_gate_mass()->Add(mass.values.begin(), mass.values.end());
  }
  shard->set_tokens(coactivation.tokens());
  return absl::OkStatus();
}

}  // namespace foreshock::indicators
