#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/tensor_check.h"
#include "daemon/ingest/validate.h"

namespace foreshock::ingest::internal {
namespace {

Extent Experts(const v1::ModelShape& model) {
  if (model.experts() != 0) return Extent::Exactly("experts", model.experts());
  return {"experts", 1, kExpertsMax};
}

// Every element of an integer tensor that has passed CheckTensor lies in low..high.
absl::Status CheckElements(const Field& field, const v1::Tensor& tensor, size_t size, int64_t low,
                           int64_t high) {
  for (size_t i = 0; i < size; ++i) {
    const int64_t value = IntegerAt(tensor, i);
    if (value < low || value > high) {
      return field.Refuse(absl::StrCat(value, " at index ", i), absl::StrCat(low, "..", high));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RouterGates(const Field& field, const v1::RouterGates& gates,
                         const v1::ModelShape& model) {
  FORESHOCK_RETURN_IF_ERROR(CheckLayer(Field(field, "layer"), gates.layer(), model));
  if (gates.score_kind() < v1::SCORE_KIND_SOFTMAX_LOGITS ||
      gates.score_kind() > v1::SCORE_KIND_SIGMOID) {
    return Field(field, "score_kind")
        .Refuse(gates.score_kind(), "SOFTMAX_LOGITS, SIGMOID_LOGITS, SOFTMAX, SIGMOID");
  }
  FORESHOCK_RETURN_IF_ERROR(CheckTensor(Field(field, "scores"), gates.scores(), kFloats,
                                        {Extent{"tokens", 1, kTokensMax}, Experts(model)}));
  const uint32_t tokens = gates.scores().shape(0);
  const uint32_t experts = gates.scores().shape(1);
  if (gates.top_k() > experts) {
    return Field(field, "top_k").Refuse(gates.top_k(), absl::StrCat("0..", experts, " (experts)"));
  }
  if (gates.has_chosen()) {
    const uint32_t k = gates.top_k() != 0 ? gates.top_k() : std::min(model.top_k(), experts);
    FORESHOCK_RETURN_IF_ERROR(
        CheckTensor(Field(field, "chosen"), gates.chosen(), DTypeBit(v1::DTYPE_I32),
                    {Extent::Exactly("tokens", tokens),
                     k != 0 ? Extent::Exactly("k", k) : Extent{"k", 1, experts}}));
    FORESHOCK_RETURN_IF_ERROR(CheckElements(Field(field, "chosen"), gates.chosen(),
                                            size_t{tokens} * gates.chosen().shape(1), 0,
                                            int64_t{experts} - 1));
  }
  if (gates.has_correction_bias()) {
    FORESHOCK_RETURN_IF_ERROR(CheckTensor(Field(field, "correction_bias"), gates.correction_bias(),
                                          kFloats, {Extent::Exactly("experts", experts)}));
  }
  return absl::OkStatus();
}

absl::Status RouterLoad(const Field& field, const v1::RouterLoad& load,
                        const v1::ModelShape& model) {
  FORESHOCK_RETURN_IF_ERROR(CheckLayer(Field(field, "layer"), load.layer(), model));
  const uint32_t all = model.experts() != 0 ? model.experts() : kExpertsMax;
  FORESHOCK_RETURN_IF_ERROR(
      Field(field, "expert_offset").CheckRange(load.expert_offset(), 0, all - 1));
  FORESHOCK_RETURN_IF_ERROR(CheckTensor(Field(field, "counts"), load.counts(), kIntegers,
                                        {Extent{"experts", 1, all - load.expert_offset()}}));
  const uint32_t n = load.counts().shape(0);
  FORESHOCK_RETURN_IF_ERROR(CheckElements(Field(field, "counts"), load.counts(), n, 0, kCountMax));
  const Extent experts = Extent::Exactly("experts", n);
  if (load.has_dropped()) {
    const Field at(field, "dropped");
    FORESHOCK_RETURN_IF_ERROR(CheckTensor(at, load.dropped(), kIntegers, {experts}));
    for (size_t i = 0; i < n; ++i) {
      const int64_t dropped = IntegerAt(load.dropped(), i);
      const int64_t count = IntegerAt(load.counts(), i);
      if (dropped < 0 || dropped > count) {
        return at.Refuse(absl::StrCat(dropped, " at index ", i),
                         absl::StrCat("0..", count, " (counts)"));
      }
    }
  }
  if (load.has_gate_mass()) {
    FORESHOCK_RETURN_IF_ERROR(
        CheckTensor(Field(field, "gate_mass"), load.gate_mass(), kWideFloats, {experts}));
  }
  return absl::OkStatus();
}

absl::Status RouterWeights(const Field& field, const v1::RouterWeights& weights,
                           const v1::ModelShape& model) {
  FORESHOCK_RETURN_IF_ERROR(CheckLayer(Field(field, "layer"), weights.layer(), model));
  FORESHOCK_RETURN_IF_ERROR(CheckWeightDType(Field(field, "weight_dtype"), weights.weight_dtype()));
  Extent rows = model.hidden_size() != 0 ? Extent::Exactly("rows", model.hidden_size())
                                         : Extent{"rows", 1, kHiddenSizeMax};
  if (weights.has_rows()) {
    FORESHOCK_RETURN_IF_ERROR(CheckRows(Field(field, "rows"), weights.rows(), model));
    rows = Extent::Exactly("rows", weights.rows().count());
  }
  return CheckTensor(Field(field, "weights"), weights.weights(), kFloats, {Experts(model), rows});
}

absl::Status RouterCoactivation(const Field& field, const v1::RouterCoactivation& coactivation,
                                const v1::ModelShape& model) {
  FORESHOCK_RETURN_IF_ERROR(CheckLayer(Field(field, "layer"), coactivation.layer(), model));
  const Extent experts = Experts(model);
  FORESHOCK_RETURN_IF_ERROR(
      Field(field, "experts")
          .CheckRange(coactivation.experts(), std::max<uint64_t>(experts.low, 2), experts.high));
  const uint64_t e = coactivation.experts();
  const uint64_t pairs = e * (e - 1) / 2;
  const Field at(field, "pair_counts");
  FORESHOCK_RETURN_IF_ERROR(CheckTensor(at, coactivation.pair_counts(), DTypeBit(v1::DTYPE_I64),
                                        {Extent::Exactly("E(E-1)/2", pairs)}));
  FORESHOCK_RETURN_IF_ERROR(CheckElements(at, coactivation.pair_counts(), pairs, 0, kCountMax));
  if (coactivation.has_gate_mass()) {
    FORESHOCK_RETURN_IF_ERROR(CheckTensor(Field(field, "gate_mass"), coactivation.gate_mass(),
                                          kWideFloats, {Extent::Exactly("experts", e)}));
  }
  if (coactivation.tokens() > static_cast<uint64_t>(kCountMax)) {
    return Field(field, "tokens").Refuse(coactivation.tokens(), "0..2^40");
  }
  return absl::OkStatus();
}

}  // namespace foreshock::ingest::internal
