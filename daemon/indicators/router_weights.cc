#include "daemon/indicators/router_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/grid_gate.h"
#include "daemon/indicators/kernels.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/packed.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/spectrum.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {
namespace {

constexpr double kDoubleEpsilon = std::numeric_limits<double>::epsilon();

// The change since the last snapshot of these rows; keeps the new one.
void AddDelta(const v1::RouterWeights& weights, const std::vector<double>& now, uint32_t begin,
              const SummariseContext& context, Snapshots* snapshots,
              model::RouterWeightShard* shard, model::StepShards* out) {
  const Snapshots::Key key{Snapshots::Kind::kRouter, weights.layer(), begin};
  const WeightSnapshot* base = snapshots->Find(key);
  const v1::DType dtype = weights.weights().dtype();
  if (base != nullptr && base->step == context.step) return;  // sent again
  if (base != nullptr && base->step < context.step &&
      base->bytes.size() / model::ElementBytes(base->dtype) == now.size()) {
    std::vector<double> before(now.size());
    DecodeDoubles(base->dtype, base->bytes.data(), before.size(), before.data());
    double square = 0;
    for (size_t i = 0; i < now.size(); ++i) square += (now[i] - before[i]) * (now[i] - before[i]);
    shard->set_has_delta(true);
    shard->set_delta_square(square);
    shard->set_window_steps(static_cast<uint32_t>(context.step - base->step));
  } else {
    AddUndefined("router.weight_relative_norm", "no_base", 1, out);
  }
  if (!snapshots->Put(key, {context.step, dtype, weights.weights().data()})) {
    AddUndefined("router.weight_relative_norm", "snapshot_memory", 1, out);
  }
}

}  // namespace

absl::Status SummariseRouterWeights(const v1::RouterWeights& weights,
                                    const SummariseContext& context, Snapshots* snapshots,
                                    model::StepShards* out) {
  const auto layer = static_cast<int32_t>(weights.layer());
  if (weights.weights().shape_size() != 2 || !IsWellFormed(weights.weights())) {
    return absl::InvalidArgumentError("router_weights: weights must be [experts, d]");
  }
  const uint32_t experts = weights.weights().shape(0);
  const uint32_t columns = weights.weights().shape(1);
  const v1::RowRange& rows = weights.rows();
  if (weights.has_rows() &&
      (rows.count() != columns || uint64_t{rows.begin()} + rows.count() > rows.total())) {
    return absl::InvalidArgumentError(
        absl::StrCat("router_weights of layer ", weights.layer(), ": rows ", rows.begin(), "+",
                     rows.count(), " of ", rows.total(), " for ", columns, " columns"));
  }
  const TensorDoubles values = DecodeDoubles(weights.weights());
  const Snapshots::Key key{Snapshots::Kind::kRouter, weights.layer(), rows.begin()};
  if (values.nonfinite > 0) {
    AddNonFinite(context, "router_weights", layer, -1, values.nonfinite, out);
    AddUndefined("router.weight_similarity", "nonfinite", 1, out);
    snapshots->Erase(key);
    return absl::OkStatus();
  }
  model::RouterWeightShard* shard = out->add_router_weights();
  shard->set_layer(weights.layer());
  shard->set_experts(experts);
  shard->set_rows_total(weights.has_rows() ? rows.total() : columns);
  shard->set_rows_covered(columns);
  model::Source* source = shard->add_sources();
  source->set_id(RowRangeId(rows.begin(), columns));
  source->set_fingerprint(Fingerprint({weights.weights().data()}));
  // [experts, columns] by rows is the transpose in columns: A^T A = W W^T.
  std::vector<double> gram(size_t{experts} * experts);
  GetKernels().gram(values.values.data(), columns, experts, gram.data());
  double norm_square = 0;
  for (size_t i = 0; i < experts; ++i) {
    norm_square += gram[i + i * experts];
    for (size_t j = 0; j <= i; ++j) shard->add_gram(gram[i + j * experts]);
  }
  shard->set_norm_square(norm_square);
  shard->set_significand_bits(weights.fp32_master()
                                  ? SignificandBits(v1::DTYPE_F32)
                                  : SignificandBits(weights.weight_dtype() != v1::DTYPE_UNSPECIFIED
                                                        ? weights.weight_dtype()
                                                        : weights.weights().dtype()));
  AddDelta(weights, values.values, rows.begin(), context, snapshots, shard, out);
  return absl::OkStatus();
}

namespace {

// Mean cosine over pairs of different rows.
double Similarity(const std::vector<double>& gram, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      sum += gram[i + j * n] / (std::sqrt(gram[i + i * n]) * std::sqrt(gram[j + j * n]));
    }
  }
  const double experts = static_cast<double>(n);
  return std::clamp(2 * sum / (experts * (experts - 1)), -1 / (experts - 1), 1.0);
}

struct Centred {
  std::vector<double> gram;  // H G H, H = I - 11^T / E; diagonal noise set to 0
  double mean_square = 0;    // |mean row|^2, 0 when it is rounding noise
};

Centred Centre(const std::vector<double>& gram, size_t n) {
  const double experts = static_cast<double>(n);
  std::vector<double> row_mean(n);
  double largest = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) row_mean[i] += gram[i + j * n];
    row_mean[i] /= experts;
    largest = std::max(largest, gram[i + i * n]);
  }
  const double mean = std::accumulate(row_mean.begin(), row_mean.end(), 0.0) / experts;
  const double noise = experts * kDoubleEpsilon * largest;
  Centred centred{std::vector<double>(n * n), mean > noise ? mean : 0};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      const double value = gram[i + j * n] - row_mean[i] - row_mean[j] + mean;
      centred.gram[i + j * n] = std::abs(value) > noise ? value : 0;
    }
  }
  return centred;
}

void AddConditioning(const Centred& centred, size_t n, bool zero_row, int32_t layer,
                     SampleWriter* writer) {
  if (zero_row || centred.mean_square == 0) {
    writer->AddUndefined("router.centred_conditioning", zero_row ? "zero_row" : "zero_mean");
    return;
  }
  double furthest = 0;
  for (size_t i = 0; i < n; ++i) furthest = std::max(furthest, centred.gram[i + i * n]);
  writer->Add("router.centred_conditioning", layer,
              std::sqrt(furthest) / std::sqrt(centred.mean_square));
}

void AddCentredSpectrum(Centred centred, uint32_t experts, uint32_t rows, int32_t layer,
                        SampleWriter* writer) {
  if (experts < 3) {
    writer->AddUndefined("router.centred_kappa", "too_few_experts");
    writer->AddUndefined("router.centred_effective_rank", "too_few_experts");
    return;
  }
  std::vector<double> lambda(experts), work(5 * size_t{experts});
  double trace = 0;
  for (size_t i = 0; i < experts; ++i) trace += centred.gram[i + i * experts];
  GetKernels().symmetric_eigenvalues(centred.gram.data(), experts, work.data(), lambda.data());
  // One value is 0 by construction, and so are those beyond the number of columns.
  const uint32_t bound = std::min(experts - 1, rows);
  const double smallest = lambda[experts - bound];
  const double largest = lambda.back();
  if (!(largest > 0) || smallest <= experts * kDoubleEpsilon * largest) {
    writer->AddUndefined("router.centred_kappa", "zero_singular_value");
  } else {
    writer->Add("router.centred_kappa", layer, std::sqrt(largest / smallest));
  }
  const model::Spectrum spectrum =
      SpectrumOfEigenvalues(lambda, 0, experts - 1, kDoubleEpsilon, kDoubleEpsilon * trace);
  if (spectrum.defined()) {
    writer->Add("router.centred_effective_rank", layer,
                EffectiveRank(spectrum.entropy(), experts - 1));
  } else {
    writer->AddUndefined("router.centred_effective_rank", "zero_matrix");
  }
}

void AddRelativeNorm(const model::RouterWeightShard& shard, SampleWriter* writer) {
  if (!shard.has_delta()) return;
  if (shard.norm_square() == 0 || shard.delta_square() == 0) {
    writer->AddUndefined("router.weight_relative_norm", "zero_update");
    return;
  }
  const double ratio = std::sqrt(shard.delta_square()) / std::sqrt(shard.norm_square());
  const bool grid = UpdateGridRatio(shard.significand_bits(), ratio) > kGridRatioMax;
  writer->Add("router.weight_relative_norm", static_cast<int32_t>(shard.layer()), ratio,
              grid ? model::kFlagGrid : 0u);
}

}  // namespace

void FinishRouterWeights(const model::StepShards& merged, SampleWriter* writer) {
  for (const model::RouterWeightShard& shard : merged.router_weights()) {
    const auto layer = static_cast<int32_t>(shard.layer());
    const size_t n = shard.experts();
    if (shard.rows_covered() != shard.rows_total() ||
        static_cast<size_t>(shard.gram_size()) != PackedSize(n)) {
      writer->AddUndefined("router.weight_similarity", "rows_missing");
      continue;
    }
    AddRelativeNorm(shard, writer);
    const std::vector<double> gram = Unpack(shard.gram(), n);
    bool zero_row = false, finite = true;
    for (size_t i = 0; i < n; ++i) zero_row = zero_row || gram[i + i * n] == 0;
    for (double value : gram) finite = finite && std::isfinite(value);
    if (!finite) {
      writer->AddUndefined("router.weight_similarity", "out_of_range");
      continue;
    }
    if (n < 2 || zero_row) {
      writer->AddUndefined("router.weight_similarity", n < 2 ? "single_expert" : "zero_row");
    } else {
      writer->Add("router.weight_similarity", layer, Similarity(gram, n));
    }
    Centred centred = Centre(gram, n);
    AddConditioning(centred, n, zero_row, layer, writer);
    AddCentredSpectrum(std::move(centred), shard.experts(), shard.rows_total(), layer, writer);
  }
}

}  // namespace foreshock::indicators
