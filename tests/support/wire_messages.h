// Small valid messages of every kind, for tests to send or to spoil. The model: 4 layers, 4 query
// and 2 key heads of dimension 2, hidden size 8, 4 experts, top-2.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "foreshock/v1/ingest.pb.h"

namespace foreshock::support {

template <typename T>
v1::Tensor MakeTensor(v1::DType dtype, std::initializer_list<uint32_t> shape,
                      const std::vector<T>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  for (const uint32_t extent : shape) tensor.add_shape(extent);
  tensor.mutable_data()->resize(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(tensor.mutable_data()->data(), values.data(), tensor.data().size());
  }
  return tensor;
}

// F32, every element `value`.
inline v1::Tensor FilledTensor(std::initializer_list<uint32_t> shape, float value) {
  size_t size = 1;
  for (const uint32_t extent : shape) size *= extent;
  return MakeTensor<float>(v1::DTYPE_F32, shape, std::vector<float>(size, value));
}

inline v1::Hello GoodHello() {
  v1::Hello hello;
  hello.set_run("llama-7b");
  hello.set_launch_id("launch-1");
  hello.set_client_instance("instance-1");
  hello.set_rank(1);
  hello.set_world_size(4);
  hello.mutable_coordinates()->set_data(1);
  v1::ModelShape* model = hello.mutable_model();
  model->set_layers(4);
  model->set_heads(4);
  model->set_kv_heads(2);
  model->set_head_dim(2);
  model->set_hidden_size(8);
  model->set_experts(4);
  model->set_top_k(2);
  model->set_attention(v1::ATTENTION_KIND_GQA);
  v1::PlanEntry* plan = hello.add_plan();
  plan->set_kind(v1::SUMMARY_KIND_ROUTER_GATES);
  plan->add_layers(3);
  plan->set_every_steps(10);
  plan->set_phase_step(9);
  (*hello.mutable_labels())["team"] = "pretraining";
  return hello;
}

inline v1::Summary GoodScalars(double loss = 2.5) {
  v1::Summary summary;
  v1::ScalarBatch* batch = summary.mutable_scalars();
  v1::ScalarDeclaration* declare = batch->add_declare();
  declare->set_id(1);
  declare->set_name("loss");
  declare->set_unit("nats");
  declare->set_reduction(v1::REDUCTION_MEAN);
  declare->set_scope(v1::SCOPE_GLOBAL);
  batch->add_ids(1);
  batch->add_values(loss);
  return summary;
}

inline v1::Summary GoodLogits() {
  v1::Summary summary;
  v1::AttentionLogits* logits = summary.mutable_attention_logits();
  logits->set_layer(3);
  logits->add_heads(0);
  logits->add_heads(2);
  *logits->mutable_logits() = FilledTensor({2, 3, 5}, 0.5f);
  *logits->mutable_max_logit() = FilledTensor({2}, 1.5f);
  return summary;
}

inline v1::Summary GoodFactors() {
  v1::Summary summary;
  v1::QkFactors* factors = summary.mutable_qk_factors();
  factors->set_layer(2);
  factors->add_heads(1);
  factors->add_heads(3);
  *factors->mutable_q()->mutable_dense() = FilledTensor({2, 2, 8}, 0.25f);
  *factors->mutable_k()->mutable_dense() = FilledTensor({1, 2, 8}, 0.5f);
  factors->add_k_index(0);
  factors->add_k_index(0);
  factors->set_weight_dtype(v1::DTYPE_BF16);
  return summary;
}

// For a report of step 50.
inline v1::Summary GoodGram() {
  v1::Summary summary;
  v1::QkGram* gram = summary.mutable_qk_gram();
  gram->set_layer(0);
  gram->add_heads(0);
  gram->set_head_dim(2);
  gram->set_window_steps(10);
  gram->set_base_step(40);
  gram->add_a(0.125);
  gram->add_q(4);
  *gram->mutable_gram_a() =
      MakeTensor<double>(v1::DTYPE_F64, {1, 10}, std::vector<double>(10, 1.0));
  *gram->mutable_gram_b() = gram->gram_a();
  return summary;
}

inline v1::Summary GoodGates() {
  v1::Summary summary;
  v1::RouterGates* gates = summary.mutable_router_gates();
  gates->set_layer(1);
  *gates->mutable_scores() = FilledTensor({3, 4}, 0.25f);
  gates->set_score_kind(v1::SCORE_KIND_SOFTMAX);
  *gates->mutable_chosen() =
      MakeTensor<int32_t>(v1::DTYPE_I32, {3, 2}, std::vector<int32_t>{0, 1, 2, 3, 0, 3});
  *gates->mutable_correction_bias() = FilledTensor({4}, 0.0f);
  return summary;
}

inline v1::Summary GoodLoad() {
  v1::Summary summary;
  v1::RouterLoad* load = summary.mutable_router_load();
  load->set_layer(1);
  load->set_expert_offset(2);
  *load->mutable_counts() = MakeTensor<int64_t>(v1::DTYPE_I64, {2}, std::vector<int64_t>{100, 28});
  *load->mutable_dropped() = MakeTensor<int32_t>(v1::DTYPE_I32, {2}, std::vector<int32_t>{1, 0});
  *load->mutable_gate_mass() = FilledTensor({2}, 40.0f);
  return summary;
}

inline v1::Summary GoodRouterWeights() {
  v1::Summary summary;
  v1::RouterWeights* weights = summary.mutable_router_weights();
  weights->set_layer(1);
  *weights->mutable_weights() = FilledTensor({4, 8}, 0.1f);
  return summary;
}

inline v1::Summary GoodCoactivation() {
  v1::Summary summary;
  v1::RouterCoactivation* coactivation = summary.mutable_router_coactivation();
  coactivation->set_layer(1);
  coactivation->set_experts(4);
  *coactivation->mutable_pair_counts() =
      MakeTensor<int64_t>(v1::DTYPE_I64, {6}, std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  coactivation->set_tokens(64);
  return summary;
}

inline v1::Summary GoodTensorStats() {
  v1::Summary summary;
  v1::TensorStatsBatch* batch = summary.mutable_tensor_stats();
  v1::TensorDeclaration* declare = batch->add_declare();
  declare->set_id(5);
  declare->set_name("grad/w_q");
  declare->set_layer(2);
  v1::TensorStats* stats = batch->add_stats();
  stats->set_id(5);
  stats->set_count(100);
  stats->set_min(-1);
  stats->set_max(2);
  stats->set_mean(0.5);
  stats->set_rms(0.75);
  return summary;
}

inline v1::Summary GoodEvent() {
  v1::Summary summary;
  v1::Event* event = summary.mutable_event();
  event->set_kind(v1::EVENT_KIND_CHECKPOINT_SAVED);
  event->set_step(50);
  event->set_name("step-50");
  return summary;
}

inline v1::Summary GoodPolicyMismatch() {
  v1::Summary summary;
  v1::PolicyMismatch* mismatch = summary.mutable_policy_mismatch();
  *mismatch->mutable_trainer_logprobs() = FilledTensor({3}, -1.0f);
  *mismatch->mutable_rollout_logprobs() = FilledTensor({3}, -1.25f);
  mismatch->set_routes_compared(10);
  mismatch->set_routes_mismatched(1);
  return summary;
}

inline std::vector<v1::Summary> GoodSummaries() {
  return {GoodScalars(),     GoodLogits(), GoodFactors(),       GoodGram(),
          GoodGates(),       GoodLoad(),   GoodRouterWeights(), GoodCoactivation(),
          GoodTensorStats(), GoodEvent(),  GoodPolicyMismatch()};
}

// Step 50, no summaries.
inline v1::Report EmptyReport(uint64_t seq, int64_t step = 50) {
  v1::Report report;
  report.set_seq(seq);
  report.set_step(step);
  report.set_time_unix_ns(1'800'000'000'000'000'000);
  report.set_tokens(1024);
  report.set_phase(v1::PHASE_TRAIN);
  report.set_last_of_step(true);
  return report;
}

inline v1::Report GoodReport(uint64_t seq, int64_t step = 50) {
  v1::Report report = EmptyReport(seq, step);
  *report.add_summaries() = GoodScalars();
  return report;
}

inline v1::Goodbye GoodGoodbye() {
  v1::Goodbye goodbye;
  goodbye.set_outcome(v1::OUTCOME_FINISHED);
  return goodbye;
}

}  // namespace foreshock::support
