#include "tests/load/load_reports.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace foreshock::load {
namespace {

constexpr uint64_t kTokens = 4096;
constexpr uint32_t kTopK = 8;
constexpr int kFixedSummaries = 1;  // the scalars; the loads of the layers follow

// As the default rules know them; more are numbered.
constexpr std::array<const char*, 9> kNames = {
    "grad_norm", "lr",         "grad_norm_q", "grad_norm_k", "grad_norm_router",
    "aux_loss",  "update_rms", "param_rms",   "loss_scale"};

std::string ScalarName(const LoadOptions& options, uint32_t index) {
  if (index < options.rank_scalars) return index == 0 ? "loss" : absl::StrCat("rank_", index);
  index -= options.rank_scalars;
  return index < kNames.size() ? kNames[index] : absl::StrCat("scalar_", index);
}

// In [0, 1): the same for the same arguments.
double Noise(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9e3779b97f4a7c15u ^ b * 0xbf58476d1ce4e5b9u ^ c * 0x94d049bb133111ebu;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

// The lower triangle of X^T X for a random X [2n, n], so that it is the Gram matrix of something.
std::string RandomGram(uint32_t n) {
  std::mt19937 random(42);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> columns(n, std::vector<double>(size_t{2} * n));
  for (auto& column : columns) {
    for (double& value : column) value = normal(random);
  }
  std::vector<double> packed;
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (size_t k = 0; k < columns[i].size(); ++k) sum += columns[i][k] * columns[j][k];
      packed.push_back(sum);
    }
  }
  std::string bytes(packed.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), packed.data(), bytes.size());
  return bytes;
}

void SetGram(const std::string& bytes, uint32_t heads, v1::Tensor* tensor) {
  tensor->set_dtype(v1::DTYPE_F64);
  tensor->add_shape(heads);
  tensor->add_shape(static_cast<uint32_t>(bytes.size() / sizeof(double) / heads));
  tensor->set_data(bytes);
}

}  // namespace

ReportMaker::ReportMaker(const LoadOptions& options) : options_(options) {
  if (options_.gram_ranks == 0) return;
  const std::string one = RandomGram(2 * options_.head_dim);
  for (uint32_t i = 0; i < options_.gram_heads; ++i) gram_ += one;
}

v1::Hello ReportMaker::Hello(uint32_t rank) const {
  v1::Hello hello;
  hello.set_run(options_.run);
  hello.set_launch_id(absl::StrCat("load-", getpid()));
  hello.set_client_instance(absl::StrCat("load-", getpid(), "-", rank));
  hello.set_rank(rank);
  hello.set_world_size(options_.ranks);
  hello.mutable_coordinates()->set_data(rank);
  hello.set_client_version("foreshock-load");
  v1::ModelShape* model = hello.mutable_model();
  model->set_layers(options_.layers);
  model->set_experts(options_.experts);
  model->set_top_k(std::min(kTopK, options_.experts));
  if (options_.gram_ranks > 0) {
    model->set_heads(options_.gram_ranks * options_.gram_heads);
    model->set_kv_heads(model->heads());
    model->set_head_dim(options_.head_dim);
    model->set_hidden_size(4 * options_.head_dim);
  }
  const auto plan = [&hello](v1::SummaryKind kind, uint32_t every, uint32_t phase) {
    v1::PlanEntry* entry = hello.add_plan();
    entry->set_kind(kind);
    entry->set_every_steps(every);
    entry->set_phase_step(phase);
  };
  plan(v1::SUMMARY_KIND_SCALARS, 1, 0);
  if (options_.layers > 0) plan(v1::SUMMARY_KIND_ROUTER_LOAD, 1, 0);
  if (rank < options_.gram_ranks) {
    plan(v1::SUMMARY_KIND_QK_GRAM, options_.gram_every_steps, 0);
  }
  return hello;
}

void ReportMaker::Declare(v1::PushRequest* request) const {
  v1::Report* report = request->mutable_report();
  if (report->summaries_size() == 0) report->add_summaries();
  v1::ScalarBatch* scalars = report->mutable_summaries(0)->mutable_scalars();
  for (uint32_t i = 0; i < options_.scalars; ++i) {
    v1::ScalarDeclaration* declaration = scalars->add_declare();
    declaration->set_id(i);
    declaration->set_name(ScalarName(options_, i));
    declaration->set_reduction(v1::REDUCTION_MEAN);
    declaration->set_scope(i < options_.rank_scalars ? v1::SCOPE_RANK : v1::SCOPE_GLOBAL);
  }
}

void ReportMaker::Make(uint32_t rank, int64_t step, v1::PushRequest* request) const {
  v1::Report* report = request->mutable_report();
  report->set_seq(static_cast<uint64_t>(step) + 1);
  report->set_step(step);
  report->set_time_unix_ns(absl::GetCurrentTimeNanos());
  report->set_tokens(kTokens);
  report->set_phase(v1::PHASE_TRAIN);
  report->set_last_of_step(true);
  const auto layers = static_cast<int>(options_.layers);
  while (report->summaries_size() < kFixedSummaries + layers) report->add_summaries();

  v1::ScalarBatch* scalars = report->mutable_summaries(0)->mutable_scalars();
  scalars->clear_ids();
  scalars->clear_values();
  for (uint32_t i = 0; i < options_.scalars; ++i) {
    scalars->add_ids(i);
    scalars->add_values(2 + 0.01 * Noise(rank, static_cast<uint64_t>(step), i));
  }
  std::vector<int32_t> counts(options_.experts);
  for (int layer = 0; layer < layers; ++layer) {
    for (uint32_t e = 0; e < options_.experts; ++e) {
      counts[e] = 100 + static_cast<int32_t>(
                            20 * Noise(rank, static_cast<uint64_t>(step),
                                       static_cast<uint64_t>(layer) * options_.experts + e));
    }
    v1::RouterLoad* load =
        report->mutable_summaries(kFixedSummaries + layer)->mutable_router_load();
    load->set_layer(static_cast<uint32_t>(layer));
    v1::Tensor* tensor = load->mutable_counts();
    tensor->set_dtype(v1::DTYPE_I32);
    tensor->clear_shape();
    tensor->add_shape(options_.experts);
    tensor->mutable_data()->resize(counts.size() * sizeof(int32_t));
    std::memcpy(tensor->mutable_data()->data(), counts.data(), tensor->data().size());
  }
  if (SendsGram(rank, step)) AddGrams(rank, step, report);
}

void ReportMaker::Shrink(v1::PushRequest* request) const {
  if (!request->has_report()) return;
  v1::Report* report = request->mutable_report();
  if (report->summaries_size() == 0) return;
  report->mutable_summaries(0)->mutable_scalars()->clear_declare();
  const int kept = kFixedSummaries + static_cast<int>(options_.layers);
  while (report->summaries_size() > kept) delete report->mutable_summaries()->ReleaseLast();
}

bool ReportMaker::SendsGram(uint32_t rank, int64_t step) const {
  return rank < options_.gram_ranks && step > 0 && step % options_.gram_every_steps == 0;
}

void ReportMaker::AddGrams(uint32_t rank, int64_t step, v1::Report* report) const {
  for (uint32_t layer = 0; layer < options_.layers; ++layer) {
    v1::QkGram* gram = report->add_summaries()->mutable_qk_gram();
    gram->set_layer(layer);
    gram->set_head_dim(options_.head_dim);
    gram->set_window_steps(options_.gram_every_steps);
    gram->set_base_step(step - options_.gram_every_steps);
    gram->set_fp32_master(true);
    for (uint32_t i = 0; i < options_.gram_heads; ++i) {
      gram->add_heads(rank * options_.gram_heads + i);
      gram->add_a(1);
      gram->add_q(1);
    }
    SetGram(gram_, options_.gram_heads, gram->mutable_gram_a());
    SetGram(gram_, options_.gram_heads, gram->mutable_gram_b());
  }
}

}  // namespace foreshock::load
