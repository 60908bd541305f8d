#include "daemon/indicators/router_gates.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/indicators/kernels.h"
#include "daemon/indicators/log_sketch.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/router_load.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {
namespace {

constexpr size_t kTokensAtOnce = 64;  // decoded scores stay in the cache

GateForm FormOf(v1::ScoreKind kind) {
  switch (kind) {
    case v1::SCORE_KIND_SIGMOID_LOGITS:
      return GateForm::kSigmoidLogits;
    case v1::SCORE_KIND_SOFTMAX:
      return GateForm::kSoftmax;
    case v1::SCORE_KIND_SIGMOID:
      return GateForm::kSigmoid;
    default:
      return GateForm::kSoftmaxLogits;
  }
}

// How experts are selected, or why that is not known.
struct Selection {
  size_t top_k = 0;  // 0: not known
  std::vector<int64_t> chosen;
  const char* unknown = nullptr;
};

absl::StatusOr<Selection> SelectionOf(const v1::RouterGates& gates, const v1::ModelShape& model,
                                      size_t experts) {
  Selection selection;
  if (IsPresent(gates.chosen())) {
    selection.chosen = DecodeInts(gates.chosen());
    selection.top_k = gates.chosen().shape_size() == 2 ? gates.chosen().shape(1) : 0;
    for (int64_t expert : selection.chosen) {
      if (expert < 0 || static_cast<size_t>(expert) >= experts) {
        return absl::InvalidArgumentError(absl::StrCat("router_gates of layer ", gates.layer(),
                                                       ": chosen expert ", expert,
                                                       "; allowed are 0..", experts - 1));
      }
    }
  } else if (model.router_groups() > 1) {
    selection.unknown = "group_limited";
  } else {
    selection.top_k = gates.top_k() != 0 ? gates.top_k() : model.top_k();
  }
  if (selection.unknown == nullptr && selection.top_k == 0) selection.unknown = "unknown_top_k";
  if (selection.top_k > experts) {
    return absl::InvalidArgumentError(absl::StrCat("router_gates of layer ", gates.layer(),
                                                   ": top-", selection.top_k, " of ", experts,
                                                   " experts"));
  }
  return selection;
}

// The task and what it points to.
struct GateWork {
  GateWork(const v1::RouterGates& gates, const Selection& selection,
           const std::vector<double>& bias, size_t tokens, size_t experts)
      : part(std::min(tokens, kTokensAtOnce) * experts),
        scratch(GateScratchDoubles(experts)),
        p_sum(experts),
        margins(tokens),
        counts(experts) {
    task.scores = part.data();
    task.experts = experts;
    task.form = FormOf(gates.score_kind());
    task.top_k = selection.top_k;
    task.bias = bias.empty() ? nullptr : bias.data();
    task.scratch = scratch.data();
    task.p_sum = p_sum.data();
    task.counts = counts.data();
  }
  GateWork(const GateWork&) = delete;
  GateWork& operator=(const GateWork&) = delete;

  std::vector<double> part, scratch, p_sum, margins;
  std::vector<int64_t> counts;
  GateTask task;
};

// Runs the gates over all tokens, unless there are non-finite scores, whose number it returns.
uint64_t Run(const v1::Tensor& scores, const Selection& selection, GateWork* work) {
  GateTask& task = work->task;
  const size_t tokens = work->margins.size();
  const size_t row_bytes = task.experts * model::ElementBytes(scores.dtype());
  uint64_t nonfinite = 0;
  for (size_t begin = 0; begin < tokens; begin += kTokensAtOnce) {
    task.tokens = std::min(tokens - begin, kTokensAtOnce);
    task.margins = work->margins.data() + begin;
    task.chosen =
        selection.chosen.empty() ? nullptr : selection.chosen.data() + begin * selection.top_k;
    const size_t count = task.tokens * task.experts;
    DecodeDoubles(scores.dtype(), scores.data().data() + begin * row_bytes, count,
                  work->part.data());
    nonfinite += CountNonFinite(work->part.data(), count);
    if (nonfinite == 0) GetKernels().gates(&task);
  }
  return nonfinite;
}

void FillMargins(const std::vector<double>& margins, model::GateShard* shard) {
  LogSketch sketch;
  double sum = 0, least = INFINITY;
  for (double margin : margins) {
    if (margin < 0) continue;
    sketch.Add(margin);
    sum += margin;
    least = std::min(least, margin);
  }
  if (sketch.total() == 0) return;
  shard->set_margin_count(sketch.total());
  shard->set_margin_sum(sum);
  shard->set_margin_min(least);
  for (const auto& [bin, count] : sketch.bins()) {
    shard->add_margin_bin(bin);
    shard->add_margin_bin_count(count);
  }
}

void FillShard(const GateTask& task, model::GateShard* shard) {
  shard->set_tokens(task.accepted);
  shard->set_entropy_sum(task.entropy_sum);
  shard->set_entropy_square_sum(task.entropy_square_sum);
  shard->set_entropy_min(task.entropy_min);
  shard->mutable_p_sum()->Add(task.p_sum, task.p_sum + task.experts);
  shard->set_rejected_rows(task.rejected);
  if (task.top_k > 0) {
    shard->mutable_counts()->Add(task.counts, task.counts + task.experts);
    shard->set_top_k(static_cast<uint32_t>(task.top_k));
    shard->set_top_k_mass_sum(task.top_k_mass_sum);
    shard->set_overlap_tokens(task.overlap_tokens);
    shard->set_overlap_sum(task.overlap_sum);
  }
  if (task.form == GateForm::kSoftmaxLogits || task.form == GateForm::kSigmoidLogits) {
    shard->set_logit_count(task.accepted * task.experts);
    shard->set_logit_sum(task.logit_sum);
    shard->set_logit_square_sum(task.logit_square_sum);
    shard->set_logit_absmax(task.logit_absmax);
    shard->set_z_sum(task.z_sum);
  }
}

}  // namespace

absl::Status SummariseGates(const v1::RouterGates& gates, const SummariseContext& context,
                            model::StepShards* out) {
  const auto layer = static_cast<int32_t>(gates.layer());
  const v1::Tensor& scores = gates.scores();
  const TensorDoubles bias = DecodeDoubles(gates.correction_bias());
  const size_t experts = scores.shape_size() == 2 ? scores.shape(1) : 0;
  if (experts == 0 || !IsWellFormed(scores) ||
      (!bias.values.empty() && bias.values.size() != experts)) {
    return absl::InvalidArgumentError(
        absl::StrCat("router_gates of layer ", gates.layer(),
                     ": scores must be [tokens, experts], correction_bias [experts]"));
  }
  const size_t tokens = ElementCount(scores) / experts;
  FORESHOCK_ASSIGN_OR_RETURN(const Selection selection,
                             SelectionOf(gates, context.sender.model, experts));
  if (!selection.chosen.empty() && selection.chosen.size() != tokens * selection.top_k) {
    return absl::InvalidArgumentError(absl::StrCat("router_gates of layer ", gates.layer(),
                                                   ": chosen must be [", tokens, ", k]"));
  }
  GateWork work(gates, selection, bias.values, tokens, experts);
  const uint64_t nonfinite = bias.nonfinite > 0 ? 0 : Run(scores, selection, &work);
  if (nonfinite + bias.nonfinite > 0) {
    AddNonFinite(context, "router_gates.scores", layer, -1, nonfinite, out);
    AddNonFinite(context, "router_gates.correction_bias", layer, -1, bias.nonfinite, out);
    AddUndefined("router.token_entropy", "nonfinite", 1, out);
    return absl::OkStatus();
  }
  const GateTask& task = work.task;
  if (task.accepted == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "router_gates of layer ", gates.layer(), ": all ", tokens,
        " rows have a negative score or the sum 0; allowed are scores >= 0 with a positive sum"));
  }
  model::GateShard* shard = out->add_gates();
  shard->set_layer(gates.layer());
  model::Source* source = shard->add_sources();
  source->set_id(TokenShardOf(gates, context.sender.coordinates));
  source->set_fingerprint(Fingerprint({scores.data(), gates.chosen().data()}));
  FillShard(task, shard);
  if (selection.unknown != nullptr) {
    AddUndefined("router.sampled_load", selection.unknown, 1, out);
  } else if (context.sender.model.router_groups() <= 1) {
    FillMargins(work.margins, shard);
  }
  return absl::OkStatus();
}

namespace {

void AddEntropies(const model::GateShard& shard, SampleWriter* writer) {
  const auto layer = static_cast<int32_t>(shard.layer());
  const double tokens = static_cast<double>(shard.tokens());
  const double experts = shard.p_sum_size();
  const double mean = shard.entropy_sum() / tokens;
  const double variance = std::max(0.0, shard.entropy_square_sum() / tokens - mean * mean);
  writer->Add("router.token_entropy", layer, mean);
  writer->Add("router.token_entropy_min", layer, shard.entropy_min());
  writer->Add("router.token_entropy_std", layer, std::sqrt(variance));
  if (shard.p_sum_size() < 2) {
    writer->AddUndefined("router.token_entropy_ratio", "single_expert");
    writer->AddUndefined("router.mutual_information", "single_expert");
    return;
  }
  writer->Add("router.token_entropy_ratio", layer, mean / std::log(experts));
  double of_mean = 0;
  for (double sum : shard.p_sum()) {
    const double p = sum / tokens;
    if (p > 0) of_mean -= p * std::log(p);
  }
  // The estimate is biased by about (E - 1) / (2 T): not to be judged on few tokens.
  const uint32_t flags = tokens < 4 * experts ? model::kFlagFewTokens : 0u;
  writer->Add("router.mutual_information", layer,
              std::clamp((of_mean - mean) / std::log(experts), 0.0, 1.0), flags);
}

void AddMargins(const model::GateShard& shard, SampleWriter* writer) {
  const auto layer = static_cast<int32_t>(shard.layer());
  if (shard.margin_count() == 0) return;
  LogSketch sketch;
  for (int i = 0; i < shard.margin_bin_size(); ++i) {
    sketch.AddBin(shard.margin_bin(i), shard.margin_bin_count(i));
  }
  writer->Add("router.margin_mean", layer,
              shard.margin_sum() / static_cast<double>(shard.margin_count()));
  writer->Add("router.margin_min", layer, shard.margin_min());
  writer->Add("router.margin_p10", layer, std::max(sketch.Quantile(0.1), shard.margin_min()));
}

void AddLogits(const model::GateShard& shard, SampleWriter* writer) {
  const auto layer = static_cast<int32_t>(shard.layer());
  if (shard.logit_count() == 0) return;
  const double count = static_cast<double>(shard.logit_count());
  const double mean = shard.logit_sum() / count;
  writer->Add("router.logit_mean", layer, mean);
  writer->Add("router.logit_std", layer,
              std::sqrt(std::max(0.0, shard.logit_square_sum() / count - mean * mean)));
  writer->Add("router.logit_absmax", layer, shard.logit_absmax());
  writer->Add("router.z", layer, shard.z_sum() / static_cast<double>(shard.tokens()));
}

}  // namespace

void FinishGates(const model::StepShards& merged, SampleWriter* writer) {
  std::set<uint32_t> exact_load;
  for (const model::LoadShard& load : merged.load()) exact_load.insert(load.layer());
  for (const model::GateShard& shard : merged.gates()) {
    const auto layer = static_cast<int32_t>(shard.layer());
    if (shard.tokens() == 0) {
      writer->AddUndefined("router.token_entropy", "no_tokens");
      continue;
    }
    if (shard.rejected_rows() > 0) {
      writer->AddUndefined("router.token_entropy", "rejected_rows", shard.rejected_rows());
    }
    AddEntropies(shard, writer);
    AddMargins(shard, writer);
    AddLogits(shard, writer);
    if (shard.overlap_tokens() > 0) {
      writer->Add("router.bias_overlap", layer,
                  shard.overlap_sum() / static_cast<double>(shard.overlap_tokens()));
    }
    if (shard.top_k() == 0) continue;
    writer->Add("router.top_k_mass", layer,
                shard.top_k_mass_sum() / static_cast<double>(shard.tokens()));
    if (exact_load.count(shard.layer()) > 0) continue;
    const std::vector<double> counts(shard.counts().begin(), shard.counts().end());
    const bool few = shard.tokens() < 4 * static_cast<uint64_t>(counts.size());
    AddLoadStatistics("router.sampled_load", layer, counts, shard.top_k(),
                      model::kFlagSampled | (few ? model::kFlagFewTokens : 0u), writer);
  }
}

}  // namespace foreshock::indicators
