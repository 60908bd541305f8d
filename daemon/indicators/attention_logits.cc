#include "daemon/indicators/attention_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/kernels.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/spectrum.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();
constexpr double kSinkWeight = 0.3;

struct Block {
  const double* logits;
  size_t rows;
  size_t columns;
};

// NaN and +inf; -inf is a mask.
uint64_t CountBad(const double* values, size_t n) {
  return static_cast<uint64_t>(std::count_if(values, values + n, [](double x) {
    return std::isnan(x) || x > std::numeric_limits<double>::max();
  }));
}

// Adds one row's softmax statistics; rows with fewer than 2 valid columns are skipped.
void AddRow(const double* row, size_t columns, bool sink, model::LogitShard* shard) {
  const auto valid =
      static_cast<size_t>(std::count_if(row, row + columns, [](double x) { return x != kMasked; }));
  if (valid < 2) return;
  const double* top = std::max_element(row, row + columns);
  double others = 0, weighted = 0;  // as for spectra: the largest left out, nothing cancels
  for (const double* x = row; x != row + columns; ++x) {
    if (x == top || *x == kMasked) continue;
    const double e = std::exp(*x - *top);
    others += e;
    weighted += e * (*top - *x);
  }
  const double entropy = std::log1p(others) + weighted / (1 + others);
  shard->set_rows(shard->rows() + 1);
  shard->set_entropy_sum(shard->entropy_sum() + entropy);
  shard->set_entropy_ratio_sum(shard->entropy_ratio_sum() +
                               entropy / std::log(static_cast<double>(valid)));
  shard->set_top_probability_sum(shard->top_probability_sum() + 1 / (1 + others));
  if (!sink) return;
  shard->set_sink_rows(shard->sink_rows() + 1);
  if (row[0] != kMasked) {
    shard->set_sink_weight_sum(shard->sink_weight_sum() + std::exp(row[0] - *top) / (1 + others));
  }
}

// Effective rank (exponent 2) of the block on the columns that no row masks; empty when these are
// fewer than 2 or all 0.
std::optional<double> EffectiveRankOf(const Block& block) {
  std::vector<size_t> open;
  double largest = 0;
  for (size_t c = 0; c < block.columns; ++c) {
    bool masked = false;
    for (size_t r = 0; r < block.rows; ++r) {
      masked = masked || block.logits[r * block.columns + c] == kMasked;
    }
    if (!masked) open.push_back(c);
  }
  if (open.size() < 2 || block.rows == 0) return std::nullopt;
  // [long, short] by columns; scaled by the largest entry so that squares stay in range.
  const bool wide = open.size() >= block.rows;
  const size_t m = wide ? open.size() : block.rows;
  const size_t n = wide ? block.rows : open.size();
  std::vector<double> matrix(m * n);
  for (size_t r = 0; r < block.rows; ++r) {
    for (size_t c = 0; c < open.size(); ++c) {
      const double value = block.logits[r * block.columns + open[c]];
      matrix[wide ? c + r * m : r + c * m] = value;
      largest = std::max(largest, std::abs(value));
    }
  }
  if (largest == 0) return std::nullopt;
  for (double& value : matrix) value /= largest;
  std::vector<double> gram(n * n), work(5 * n), lambda(n);
  GetKernels().gram(matrix.data(), m, n, gram.data());
  GetKernels().symmetric_eigenvalues(gram.data(), n, work.data(), lambda.data());
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  const auto bound = static_cast<uint32_t>(n);
  const model::Spectrum spectrum =
      SpectrumOfEigenvalues(lambda, 0, bound, kEpsilon, kEpsilon * lambda.back());
  if (!spectrum.defined()) return std::nullopt;
  return EffectiveRank(spectrum.entropy(), bound);
}

void AddBlock(const Block& block, const v1::AttentionLogits& logits, model::LogitShard* shard) {
  for (size_t r = 0; r < block.rows; ++r) {
    AddRow(block.logits + r * block.columns, block.columns, logits.column_zero_is_first(), shard);
  }
  if (const auto rank = EffectiveRankOf(block)) shard->set_effective_rank(*rank);
  if (shard->has_max()) return;
  const double most = *std::max_element(block.logits, block.logits + block.rows * block.columns);
  if (most == kMasked) return;
  shard->set_max(most);
  shard->set_has_max(true);
}

}  // namespace

absl::Status SummariseLogits(const v1::AttentionLogits& logits, const SummariseContext& context,
                             model::StepShards* out) {
  const auto heads = static_cast<size_t>(logits.heads_size());
  const TensorDoubles values = DecodeDoubles(logits.logits());
  const TensorDoubles maxima = DecodeDoubles(logits.max_logit());
  const bool has_block = IsPresent(logits.logits());
  if ((has_block && (!IsWellFormed(logits.logits()) || logits.logits().shape_size() != 3 ||
                     logits.logits().shape(0) != heads)) ||
      (IsPresent(logits.max_logit()) && maxima.values.size() != heads)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attention_logits of layer ", logits.layer(),
        ": logits must be [heads, rows, cols] and max_logit [heads] for ", heads, " heads"));
  }
  const size_t rows = has_block ? logits.logits().shape(1) : 0;
  const size_t columns = has_block ? logits.logits().shape(2) : 0;
  const auto layer = static_cast<int32_t>(logits.layer());
  for (size_t i = 0; i < heads; ++i) {
    const uint32_t head = logits.heads(static_cast<int>(i));
    model::LogitShard shard;
    shard.set_layer(logits.layer());
    shard.set_head(head);
    model::Source* source = shard.add_sources();
    source->set_id(DerivedTokenShard(context.sender.coordinates));
    const Block block{values.values.data() + i * rows * columns, rows, columns};
    if (!maxima.values.empty()) {
      const double most = maxima.values[i];
      AddNonFinite(context, "attention_logits.max_logit", layer, static_cast<int32_t>(head),
                   CountBad(&most, 1), out);
      if (std::isfinite(most)) {
        shard.set_max(most);
        shard.set_has_max(true);
        shard.set_max_exact(true);
      }
    }
    if (has_block) {
      const size_t bytes = rows * columns * model::ElementBytes(logits.logits().dtype());
      source->set_fingerprint(
          Fingerprint({absl::string_view(logits.logits().data()).substr(i * bytes, bytes)}));
      shard.set_sampled(!logits.columns_complete());
      const uint64_t bad = CountBad(block.logits, rows * columns);
      AddNonFinite(context, "attention_logits.logits", layer, static_cast<int32_t>(head), bad, out);
      if (bad > 0) {
        AddUndefined("attn.logits.entropy", "nonfinite", 1, out);
      } else {
        AddBlock(block, logits, &shard);
      }
    }
    *out->add_logits() = std::move(shard);
  }
  return absl::OkStatus();
}

void FinishLogits(const model::StepShards& merged, SampleWriter* writer) {
  struct Sink {
    int heads = 0;
    int sinking = 0;
  };
  std::map<int32_t, Sink> sinks;
  for (const model::LogitShard& shard : merged.logits()) {
    const auto layer = static_cast<int32_t>(shard.layer());
    const auto add = [&](absl::string_view id, double value, uint32_t flags) {
      writer->AddUnit(id, layer, model::Unit::kHead, shard.head(), value, flags);
    };
    if (shard.has_max()) {
      add("attn.logits.max", shard.max(), shard.max_exact() ? 0u : model::kFlagSampled);
    } else {
      writer->AddUndefined("attn.logits.max", "empty_block");
    }
    if (shard.has_effective_rank()) {
      add("attn.logits.effective_rank", shard.effective_rank(), model::kFlagSampled);
    }
    if (shard.rows() > 0) {
      const double rows = static_cast<double>(shard.rows());
      const uint32_t flags = shard.sampled() ? model::kFlagSampled : 0u;
      add("attn.logits.entropy", shard.entropy_sum() / rows, flags);
      add("attn.logits.entropy_ratio", shard.entropy_ratio_sum() / rows, flags);
      add("attn.logits.top_probability", shard.top_probability_sum() / rows, flags);
    }
    if (shard.sink_rows() == 0) continue;
    Sink& sink = sinks[layer];
    ++sink.heads;
    if (shard.sink_weight_sum() > kSinkWeight * static_cast<double>(shard.sink_rows())) {
      ++sink.sinking;
    }
  }
  for (const auto& [layer, sink] : sinks) {
    writer->Add("attn.logits.sink_fraction", layer, static_cast<double>(sink.sinking) / sink.heads);
  }
}

}  // namespace foreshock::indicators
