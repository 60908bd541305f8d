#include "daemon/merge/step_merger.h"

#include <algorithm>
#include <cmath>

#include "daemon/model/series.h"
#include "daemon/model/step.h"

namespace foreshock::merge {
namespace {

enum Kind {
  kTokens,
  kScalar,
  kLogit,
  kQk,
  kGate,
  kLoad,
  kRouterWeight,
  kCoactivation,
  kTensor,
  kPolicy,
  kUndefined
};

// Of an entry of the tables, with what a hash table leaves empty.
constexpr size_t kIndexBytes = 96;
constexpr size_t kSourceBytes = 48;
constexpr size_t kRankBytes = 16;

template <typename T>
void AddVector(const google::protobuf::RepeatedField<T>& from,
               google::protobuf::RepeatedField<T>* into) {
  if (into->empty()) {
    *into = from;
    return;
  }
  const int size = std::min(from.size(), into->size());
  for (int i = 0; i < size; ++i) into->Set(i, into->Get(i) + from.Get(i));
}

// Adds what is known on both sides; what one side does not know is not known of the sum.
template <typename T>
void AddOptionalVector(const google::protobuf::RepeatedField<T>& from,
                       google::protobuf::RepeatedField<T>* into) {
  if (from.empty()) {
    into->Clear();
  } else if (!into->empty()) {
    AddVector(from, into);
  }
}

void Add(const model::LogitShard& from, model::LogitShard* into) {
  if (from.has_max()) {
    into->set_max(into->has_max() ? std::max(into->max(), from.max()) : from.max());
    into->set_max_exact(from.max_exact() && (into->max_exact() || !into->has_max()));
    into->set_has_max(true);
  }
  into->set_sampled(into->sampled() || from.sampled());
  into->set_rows(into->rows() + from.rows());
  into->set_entropy_sum(into->entropy_sum() + from.entropy_sum());
  into->set_entropy_ratio_sum(into->entropy_ratio_sum() + from.entropy_ratio_sum());
  into->set_top_probability_sum(into->top_probability_sum() + from.top_probability_sum());
  into->set_sink_rows(into->sink_rows() + from.sink_rows());
  into->set_sink_weight_sum(into->sink_weight_sum() + from.sink_weight_sum());
  if (!into->has_effective_rank() && from.has_effective_rank()) {
    into->set_effective_rank(from.effective_rank());
  }
}

// Margin bins are sparse and sorted.
void AddBins(const model::GateShard& from, model::GateShard* into) {
  google::protobuf::RepeatedField<int32_t> bins;
  google::protobuf::RepeatedField<uint64_t> counts;
  int i = 0;
  int j = 0;
  while (i < from.margin_bin_size() || j < into->margin_bin_size()) {
    const bool take_from =
        j >= into->margin_bin_size() ||
        (i < from.margin_bin_size() && from.margin_bin(i) <= into->margin_bin(j));
    const bool take_into =
        i >= from.margin_bin_size() ||
        (j < into->margin_bin_size() && into->margin_bin(j) <= from.margin_bin(i));
    bins.Add(take_from ? from.margin_bin(i) : into->margin_bin(j));
    counts.Add((take_from ? from.margin_bin_count(i) : 0) +
               (take_into ? into->margin_bin_count(j) : 0));
    i += take_from;
    j += take_into;
  }
  *into->mutable_margin_bin() = std::move(bins);
  *into->mutable_margin_bin_count() = std::move(counts);
}

void Add(const model::GateShard& from, model::GateShard* into) {
  into->set_entropy_min(into->tokens() == 0  ? from.entropy_min()
                        : from.tokens() == 0 ? into->entropy_min()
                                             : std::min(into->entropy_min(), from.entropy_min()));
  into->set_tokens(into->tokens() + from.tokens());
  into->set_entropy_sum(into->entropy_sum() + from.entropy_sum());
  into->set_entropy_square_sum(into->entropy_square_sum() + from.entropy_square_sum());
  AddVector(from.p_sum(), into->mutable_p_sum());
  AddVector(from.counts(), into->mutable_counts());
  into->set_top_k_mass_sum(into->top_k_mass_sum() + from.top_k_mass_sum());
  if (from.margin_count() > 0) {
    into->set_margin_min(into->margin_count() == 0
                             ? from.margin_min()
                             : std::min(into->margin_min(), from.margin_min()));
    into->set_margin_count(into->margin_count() + from.margin_count());
    into->set_margin_sum(into->margin_sum() + from.margin_sum());
    AddBins(from, into);
  }
  into->set_logit_count(into->logit_count() + from.logit_count());
  into->set_logit_sum(into->logit_sum() + from.logit_sum());
  into->set_logit_square_sum(into->logit_square_sum() + from.logit_square_sum());
  into->set_logit_absmax(std::max(into->logit_absmax(), from.logit_absmax()));
  into->set_z_sum(into->z_sum() + from.z_sum());
  into->set_overlap_tokens(into->overlap_tokens() + from.overlap_tokens());
  into->set_overlap_sum(into->overlap_sum() + from.overlap_sum());
  into->set_rejected_rows(into->rejected_rows() + from.rejected_rows());
}

void Add(const model::LoadShard& from, model::LoadShard* into) {
  AddVector(from.counts(), into->mutable_counts());
  AddOptionalVector(from.dropped(), into->mutable_dropped());
  AddOptionalVector(from.gate_mass(), into->mutable_gate_mass());
}

// Row shards of one window. A finished one covers all rows, so nothing can be added to it.
void Add(const model::QkShard& from, model::QkShard* into) {
  if (!from.has_partial() || !into->has_partial()) return;
  const model::QkGramSum& sum = from.partial();
  model::QkGramSum* total = into->mutable_partial();
  AddVector(sum.gram_a(), total->mutable_gram_a());
  AddVector(sum.gram_b(), total->mutable_gram_b());
  total->set_rows_covered(total->rows_covered() + sum.rows_covered());
  total->set_gram32(total->gram32() || sum.gram32());
  total->set_significand_bits(std::min(total->significand_bits(), sum.significand_bits()));
}

void Add(const model::RouterWeightShard& from, model::RouterWeightShard* into) {
  AddVector(from.gram(), into->mutable_gram());
  into->set_rows_covered(into->rows_covered() + from.rows_covered());
  into->set_norm_square(into->norm_square() + from.norm_square());
  into->set_has_delta(into->has_delta() && from.has_delta());
  into->set_delta_square(into->delta_square() + from.delta_square());
  into->set_significand_bits(std::min(into->significand_bits(), from.significand_bits()));
}

void Add(const model::CoactivationShard& from, model::CoactivationShard* into) {
  AddVector(from.pair_counts(), into->mutable_pair_counts());
  AddOptionalVector(from.gate_mass(), into->mutable_gate_mass());
  into->set_tokens(into->tokens() + from.tokens());
}

void Add(const model::PolicyShard& from, model::PolicyShard* into) {
  into->set_pairs(into->pairs() + from.pairs());
  into->set_weight_sum(into->weight_sum() + from.weight_sum());
  into->set_delta_sum(into->delta_sum() + from.delta_sum());
  into->set_delta_abs_sum(into->delta_abs_sum() + from.delta_abs_sum());
  into->set_k3_sum(into->k3_sum() + from.k3_sum());
  into->set_ratio_sum(into->ratio_sum() + from.ratio_sum());
  into->set_ratio_square_sum(into->ratio_square_sum() + from.ratio_square_sum());
  into->set_tail_sum(into->tail_sum() + from.tail_sum());
  into->set_p_trainer_sum(into->p_trainer_sum() + from.p_trainer_sum());
  into->set_p_rollout_sum(into->p_rollout_sum() + from.p_rollout_sum());
  into->set_p_trainer_square_sum(into->p_trainer_square_sum() + from.p_trainer_square_sum());
  into->set_p_rollout_square_sum(into->p_rollout_square_sum() + from.p_rollout_square_sum());
  into->set_p_cross_sum(into->p_cross_sum() + from.p_cross_sum());
  into->set_p_diff_sum(into->p_diff_sum() + from.p_diff_sum());
  into->set_p_diff_max(std::max(into->p_diff_max(), from.p_diff_max()));
  into->set_clamped(into->clamped() + from.clamped());
  into->set_routes_compared(into->routes_compared() + from.routes_compared());
  into->set_routes_mismatched(into->routes_mismatched() + from.routes_mismatched());
  into->set_tokens_compared(into->tokens_compared() + from.tokens_compared());
  into->set_tokens_mismatched(into->tokens_mismatched() + from.tokens_mismatched());
}

// Whether two shards with the same key are about the same thing, so that their sum means something.
bool SameShape(const model::QkShard& a, const model::QkShard& b) {
  return a.has_partial() == b.has_partial() && a.window_steps() == b.window_steps() &&
         a.base_step() == b.base_step() && a.partial().head_dim() == b.partial().head_dim() &&
         a.partial().rows_total() == b.partial().rows_total();
}
bool SameShape(const model::RouterWeightShard& a, const model::RouterWeightShard& b) {
  return a.experts() == b.experts() && a.rows_total() == b.rows_total() &&
         a.window_steps() == b.window_steps();
}
// Per token there is one selection of top_k or none, and logits or none.
bool SameShape(const model::GateShard& a, const model::GateShard& b) {
  return a.p_sum_size() == b.p_sum_size() && a.top_k() == b.top_k() &&
         (a.logit_count() == 0) == (b.logit_count() == 0);
}
bool SameShape(const model::CoactivationShard& a, const model::CoactivationShard& b) {
  return a.experts() == b.experts();
}
template <typename Shard>
bool SameShape(const Shard&, const Shard&) {
  return true;
}

int32_t LayerOf(const model::PolicyShard&) { return model::kNoLayer; }
template <typename Shard>
int32_t LayerOf(const Shard& shard) {
  return static_cast<int32_t>(shard.layer());
}

// What else tells two shards of a layer apart.
int64_t PartOf(const model::LogitShard& shard) { return shard.head(); }
int64_t PartOf(const model::QkShard& shard) { return shard.head(); }
int64_t PartOf(const model::LoadShard& shard) {
  return (static_cast<int64_t>(shard.expert_offset()) << 32) | shard.counts_size();
}
template <typename Shard>
int64_t PartOf(const Shard&) {
  return 0;
}

template <typename Shard>
int32_t HeadOf(const Shard& shard) {
  if constexpr (requires { shard.head(); }) return static_cast<int32_t>(shard.head());
  return -1;
}

}  // namespace

template <typename Shard>
bool StepMerger::Disjoint(const Shard& shard, int kind, int position, const char* payload,
                          uint32_t rank, Side* side) {
  bool disjoint = true;
  for (const model::Source& source : shard.sources()) {
    const auto known = side->sources.find({kind, position, source.id()});
    if (known == side->sources.end()) continue;
    disjoint = false;
    if (known->second == source.fingerprint()) continue;
    model::FindingShard* finding = side->shards.add_findings();
    finding->set_kind(static_cast<uint32_t>(model::Finding::Kind::kReplicaMismatch));
    finding->set_name(payload);
    finding->set_rank(rank);
    finding->set_layer(LayerOf(shard));
    finding->set_head(HeadOf(shard));
    finding->set_count(1);
    side->bytes += sizeof(*finding);
  }
  return disjoint;
}

// Merges one field of shards that carry sources: only a shard whose sources are all new may be
// added. A known source whose content differs is a finding.
template <typename Shard>
void StepMerger::MergeSourced(const google::protobuf::RepeatedPtrField<Shard>& from, int kind,
                              const char* payload, uint32_t rank,
                              google::protobuf::RepeatedPtrField<Shard>* into, Side* side) {
  for (const Shard& shard : from) {
    const auto [it, first] =
        side->index.try_emplace(Key{kind, LayerOf(shard), PartOf(shard), ""}, into->size());
    if (first) {
      Shard* copy = into->Add();
      *copy = shard;
      copy->clear_sources();
      side->bytes += kIndexBytes + copy->SpaceUsedLong();
    } else {
      if (!Disjoint(shard, kind, it->second, payload, rank, side)) continue;
      Shard* total = into->Mutable(it->second);
      if (!SameShape(shard, *total)) {
        model::UndefinedShard reason;
        reason.set_indicator(payload);
        reason.set_reason("shards_disagree");
        reason.set_count(1);
        MergeUndefined(reason, side);
        continue;
      }
      foreshock::merge::Add(shard, total);
    }
    for (const model::Source& source : shard.sources()) {
      side->sources.try_emplace({kind, it->second, source.id()}, source.fingerprint());
    }
    side->bytes += kSourceBytes * static_cast<size_t>(shard.sources_size());
  }
}

void StepMerger::MergeUndefined(const model::UndefinedShard& shard, Side* side) {
  const Key key{kUndefined, 0, 0, shard.indicator() + "\n" + shard.reason()};
  const auto [it, first] = side->index.try_emplace(key, side->shards.undefined_size());
  if (first) {
    *side->shards.add_undefined() = shard;
    side->bytes += kIndexBytes + sizeof(shard) + 2 * shard.ByteSizeLong();
  } else {
    model::UndefinedShard* total = side->shards.mutable_undefined(it->second);
    total->set_count(total->count() + shard.count());
  }
}

void StepMerger::Add(const model::ShardReport& report) {
  Side* const side = report.eval() ? &eval_ : &train_;
  if (ranks_.insert(report.rank()).second) side->bytes += kRankBytes;
  for (const v1::Event& event : report.events()) {
    side->bytes += sizeof(event) + event.ByteSizeLong();
  }
  time_unix_ns_ = std::max(time_unix_ns_, report.time_unix_ns());
  skipped_ = skipped_ || report.skipped();
  events_.insert(events_.end(), report.events().begin(), report.events().end());
  if (report.eval()) has_eval_ = true;
  Merge(report.shards(), report.rank(), side);
}

void StepMerger::Merge(const model::StepShards& from, uint32_t rank, Side* side) {
  model::StepShards* into = &side->shards;
  auto* index = &side->index;

  for (const model::Source& source : from.token_sources()) {
    if (!side->sources.try_emplace({kTokens, 0, source.id()}, source.fingerprint()).second)
      continue;
    side->bytes += kSourceBytes;
    into->set_tokens(into->tokens() + from.tokens());
  }

  // A rank says a scalar or a tensor once per step; what it says again is a repeat.
  for (const model::ScalarShard& shard : from.scalars()) {
    const Key key{kScalar, shard.scope(), shard.rank(), shard.name()};
    if (!index->try_emplace(key, into->scalars_size()).second) continue;
    *into->add_scalars() = shard;
    side->bytes += kIndexBytes + sizeof(shard) + shard.name().size();
  }
  for (const model::TensorShard& shard : from.tensors()) {
    const Key key{kTensor, shard.layer(), shard.rank(), shard.name()};
    if (!index->try_emplace(key, into->tensors_size()).second) continue;
    *into->add_tensors() = shard;
    side->bytes += kIndexBytes + sizeof(shard) + shard.name().size();
  }

  MergeSourced(from.logits(), kLogit, "attention_logits", rank, into->mutable_logits(), side);
  MergeSourced(from.qk(), kQk, "qk", rank, into->mutable_qk(), side);
  MergeSourced(from.gates(), kGate, "router_gates", rank, into->mutable_gates(), side);
  MergeSourced(from.load(), kLoad, "router_load", rank, into->mutable_load(), side);
  MergeSourced(from.router_weights(), kRouterWeight, "router_weights", rank,
               into->mutable_router_weights(), side);
  MergeSourced(from.coactivation(), kCoactivation, "router_coactivation", rank,
               into->mutable_coactivation(), side);
  MergeSourced(from.policy(), kPolicy, "policy_mismatch", rank, into->mutable_policy(), side);

  for (const model::FindingShard& finding : from.findings()) {
    *into->add_findings() = finding;
    side->bytes += sizeof(finding) + finding.name().size();
  }
  for (const model::UndefinedShard& shard : from.undefined()) MergeUndefined(shard, side);
}

}  // namespace foreshock::merge
