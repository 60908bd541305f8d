// Builds what one rank has to say about one step.
//
//   StepReport report(step);
//   report.Tokens(4096).Scalar(loss_id, loss);
//   report.RouterGates(layer, BF16(gates, {128, 256}), v1::SCORE_KIND_SOFTMAX);
//   client->Push(std::move(report).Take());
//
// Tensors are copied when they are added (64 KiB: about 5 us), in host byte order, which must be
// little-endian; shapes and meanings are those of proto/foreshock/v1/ingest.proto, and the daemon
// checks them. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "foreshock/v1/ingest.pb.h"

namespace foreshock {

// A dense row-major array that the caller owns; read only during the call it is given to.
struct TensorView {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  const void* data = nullptr;
  std::vector<uint32_t> shape;  // [outer, ..., inner]
};

TensorView F64(const double* data, std::initializer_list<uint32_t> shape);
TensorView F32(const float* data, std::initializer_list<uint32_t> shape);
TensorView F16(const void* data, std::initializer_list<uint32_t> shape);
TensorView BF16(const void* data, std::initializer_list<uint32_t> shape);
TensorView I32(const int32_t* data, std::initializer_list<uint32_t> shape);
TensorView I64(const int64_t* data, std::initializer_list<uint32_t> shape);

// A copy as the contract's message.
v1::Tensor ToTensor(const TensorView& view);

class StepReport {
 public:
  // `step` >= 0 is the optimizer step. The wall clock is read here; the report is taken as the last
  // one of its step from this rank.
  explicit StepReport(int64_t step);

  StepReport& Tokens(uint64_t tokens);  // of this rank's data shard in this step
  StepReport& Skipped();                // loss scaling skipped the optimizer step
  StepReport& Recomputed();             // made by a recomputed forward
  StepReport& Eval();                   // evaluation, feeds no training rule
  StepReport& MoreFollows();            // another report of this step comes from this rank

  // `id` from Client::DeclareScalar, once per report; `weight` counts in REDUCTION_MEAN.
  StepReport& Scalar(uint32_t id, double value, double weight = 1);
  // `logits` [heads, rows, all keys], scaled, -Inf where masked; `max_logit` [heads] may be null.
  StepReport& AttentionLogits(uint32_t layer, const std::vector<uint32_t>& heads,
                              const TensorView& logits, const TensorView* max_logit = nullptr);
  // `q` and `k` [heads, r, d]: the heads' rows of W_Q and W_K as PyTorch holds them.
  StepReport& QkFactors(uint32_t layer, const std::vector<uint32_t>& heads, const TensorView& q,
                        const TensorView& k, bool fp32_master);
  // `scores` [tokens, experts].
  StepReport& RouterGates(uint32_t layer, const TensorView& scores, v1::ScoreKind kind);
  // `counts` [experts from `expert_offset` on], exact.
  StepReport& RouterLoad(uint32_t layer, const TensorView& counts, uint32_t expert_offset = 0);
  // `weights` [experts, d].
  StepReport& RouterWeights(uint32_t layer, const TensorView& weights, bool fp32_master);
  StepReport& Event(v1::EventKind kind, const std::string& name, const std::string& detail = "");

  // A new summary to fill by hand: QkGram, TensorStats, PolicyMismatch, a part the calls above do
  // not set. Valid until the next call.
  v1::Summary* AddSummary();

  v1::Report Take() &&;

 private:
  v1::Report report_;
  int scalars_ = -1;  // index of the ScalarBatch; -1: none yet
};

}  // namespace foreshock
