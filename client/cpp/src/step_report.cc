#include "foreshock/step_report.h"

#include <cstring>
#include <utility>

#include "absl/time/clock.h"

namespace foreshock {
namespace {

size_t ElementBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F64:
    case v1::DTYPE_I64:
      return 8;
    case v1::DTYPE_F32:
    case v1::DTYPE_I32:
      return 4;
    case v1::DTYPE_F16:
    case v1::DTYPE_BF16:
      return 2;
    default:
      return 0;
  }
}

void Fill(const TensorView& view, v1::Tensor* tensor) {
  size_t bytes = ElementBytes(view.dtype);
  for (const uint32_t extent : view.shape) {
    tensor->add_shape(extent);
    bytes *= extent;
  }
  tensor->set_dtype(view.dtype);
  tensor->set_data(view.data, bytes);
}

}  // namespace

TensorView F64(const double* data, std::initializer_list<uint32_t> shape) {
  return {v1::DTYPE_F64, data, shape};
}
TensorView F32(const float* data, std::initializer_list<uint32_t> shape) {
  return {v1::DTYPE_F32, data, shape};
}
TensorView F16(const void* data, std::initializer_list<uint32_t> shape) {
  return {v1::DTYPE_F16, data, shape};
}
TensorView BF16(const void* data, std::initializer_list<uint32_t> shape) {
  return {v1::DTYPE_BF16, data, shape};
}
TensorView I32(const int32_t* data, std::initializer_list<uint32_t> shape) {
  return {v1::DTYPE_I32, data, shape};
}
TensorView I64(const int64_t* data, std::initializer_list<uint32_t> shape) {
  return {v1::DTYPE_I64, data, shape};
}

v1::Tensor ToTensor(const TensorView& view) {
  v1::Tensor tensor;
  Fill(view, &tensor);
  return tensor;
}

StepReport::StepReport(int64_t step) {
  report_.set_step(step);
  report_.set_time_unix_ns(absl::GetCurrentTimeNanos());
  report_.set_phase(v1::PHASE_TRAIN);
  report_.set_last_of_step(true);
}

StepReport& StepReport::Tokens(uint64_t tokens) {
  report_.set_tokens(tokens);
  return *this;
}

StepReport& StepReport::Skipped() {
  report_.set_skipped(true);
  return *this;
}

StepReport& StepReport::Recomputed() {
  report_.set_recomputed(true);
  return *this;
}

StepReport& StepReport::Eval() {
  report_.set_phase(v1::PHASE_EVAL);
  return *this;
}

StepReport& StepReport::MoreFollows() {
  report_.set_last_of_step(false);
  return *this;
}

StepReport& StepReport::Scalar(uint32_t id, double value, double weight) {
  if (scalars_ < 0) {
    scalars_ = report_.summaries_size();
    report_.add_summaries()->mutable_scalars();
  }
  v1::ScalarBatch* batch = report_.mutable_summaries(scalars_)->mutable_scalars();
  batch->add_ids(id);
  batch->add_values(value);
  // Weights are all there or none.
  if (weight != 1 || batch->weights_size() > 0) {
    while (batch->weights_size() + 1 < batch->ids_size()) batch->add_weights(1);
    batch->add_weights(weight);
  }
  return *this;
}

StepReport& StepReport::AttentionLogits(uint32_t layer, const std::vector<uint32_t>& heads,
                                        const TensorView& logits, const TensorView* max_logit) {
  v1::AttentionLogits* payload = AddSummary()->mutable_attention_logits();
  payload->set_layer(layer);
  payload->mutable_heads()->Add(heads.begin(), heads.end());
  Fill(logits, payload->mutable_logits());
  if (max_logit != nullptr) Fill(*max_logit, payload->mutable_max_logit());
  payload->set_columns_complete(true);
  payload->set_column_zero_is_first(true);
  return *this;
}

StepReport& StepReport::QkFactors(uint32_t layer, const std::vector<uint32_t>& heads,
                                  const TensorView& q, const TensorView& k, bool fp32_master) {
  v1::QkFactors* payload = AddSummary()->mutable_qk_factors();
  payload->set_layer(layer);
  payload->mutable_heads()->Add(heads.begin(), heads.end());
  Fill(q, payload->mutable_q()->mutable_dense());
  Fill(k, payload->mutable_k()->mutable_dense());
  payload->set_fp32_master(fp32_master);
  return *this;
}

StepReport& StepReport::RouterGates(uint32_t layer, const TensorView& scores, v1::ScoreKind kind) {
  v1::RouterGates* payload = AddSummary()->mutable_router_gates();
  payload->set_layer(layer);
  Fill(scores, payload->mutable_scores());
  payload->set_score_kind(kind);
  return *this;
}

StepReport& StepReport::RouterLoad(uint32_t layer, const TensorView& counts,
                                   uint32_t expert_offset) {
  v1::RouterLoad* payload = AddSummary()->mutable_router_load();
  payload->set_layer(layer);
  payload->set_expert_offset(expert_offset);
  Fill(counts, payload->mutable_counts());
  return *this;
}

StepReport& StepReport::RouterWeights(uint32_t layer, const TensorView& weights, bool fp32_master) {
  v1::RouterWeights* payload = AddSummary()->mutable_router_weights();
  payload->set_layer(layer);
  Fill(weights, payload->mutable_weights());
  payload->set_fp32_master(fp32_master);
  return *this;
}

StepReport& StepReport::Event(v1::EventKind kind, const std::string& name,
                              const std::string& detail) {
  v1::Event* event = AddSummary()->mutable_event();
  event->set_kind(kind);
  event->set_step(report_.step());
  event->set_name(name);
  event->set_detail(detail);
  return *this;
}

v1::Summary* StepReport::AddSummary() { return report_.add_summaries(); }

v1::Report StepReport::Take() && { return std::move(report_); }

}  // namespace foreshock
