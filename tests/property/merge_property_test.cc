// Merging is additive: what the ranks of a parallel grid say about a step, each about its part, in
// any order, with repeats and replicas, is what one rank says that sees the whole.
//
// For every payload kind a splitter makes both: the whole, and its parts by tensor, expert, data
// and context rank. Both go through Summarise, StepMerger and Finish, and their samples are
// compared.
//
// Tolerances. A sum of N terms in any order has an error of at most N eps sum|x| (eps 2^-53, to
// first order), so two orders differ by at most d = 2 N eps sum|x|. Every indicator is made of such
// sums with at most a few operations more: Tolerance() says by how much each of them amplifies d.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/indicators/sources.h"
#include "daemon/merge/step_merger.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/unit/indicators/harness.h"
#include "tests/unit/indicators/qk_payloads.h"

namespace foreshock::property {
namespace {

using google::protobuf::util::MessageDifferencer;
using indicators::F32Tensor;
using indicators::F64Tensor;
using indicators::Gaussian;
using indicators::GramOf;
using indicators::I64Tensor;
using indicators::RandomHead;

constexpr int64_t kBaseStep = 100;  // weights have a base there
constexpr int64_t kStep = 150;      // the step that is merged
constexpr double kMasked = -std::numeric_limits<double>::infinity();

// FORESHOCK_SEED=n repeats a run.
uint64_t Seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("FORESHOCK_SEED");
    const uint64_t chosen = given != nullptr ? std::stoull(given) : std::random_device{}();
    std::cout << "FORESHOCK_SEED=" << chosen << "\n";
    return chosen;
  }();
  return seed;
}

// The ranks of a job: every combination of the coordinates.
struct Grid {
  uint32_t data = 1, tensor = 1, expert = 1, context = 1;

  uint32_t ranks() const { return data * tensor * expert * context; }
  uint32_t token_shards() const { return data * context; }
  v1::Coordinates At(uint32_t rank) const {
    v1::Coordinates at;
    at.set_tensor(rank % tensor);
    at.set_expert(rank / tensor % expert);
    at.set_context(rank / tensor / expert % context);
    at.set_data(rank / tensor / expert / context);
    return at;
  }
  uint32_t TokenShard(uint32_t rank) const { return rank / tensor / expert; }
};

// What a rank says in a step.
struct Part {
  uint32_t rank = 0;
  v1::Summary summary;
};

// What ranks say at the base step, at the step, and what one rank says that sees everything.
struct Split {
  std::vector<Part> base, parts;
  std::vector<v1::Summary> base_whole, whole;
  v1::ModelShape model;
  model::StreamNames names;
  size_t terms = 1;                      // most summands of a sum
  std::map<std::string, double> scales;  // sum |x| of an indicator, where it is not its own
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  std::mt19937_64* random() { return &random_; }
  size_t Between(size_t least, size_t most) {
    return std::uniform_int_distribution<size_t>(least, most)(random_);
  }
  bool Chance(size_t one_in) { return Between(1, one_in) == 1; }
  double Real(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  // `parts` ranges that cover [0, n), each with at least `least` elements.
  std::vector<std::pair<size_t, size_t>> Cut(size_t n, size_t parts, size_t least = 1) {
    std::vector<size_t> spare(parts);
    for (size_t left = n - parts * least; left > 0; --left) ++spare[Between(0, parts - 1)];
    std::vector<std::pair<size_t, size_t>> ranges;
    size_t begin = 0;
    for (const size_t more : spare) {
      ranges.emplace_back(begin, begin + least + more);
      begin += least + more;
    }
    return ranges;
  }
  template <typename T>
  void Shuffle(std::vector<T>* values) {
    std::shuffle(values->begin(), values->end(), random_);
  }

 private:
  std::mt19937_64 random_;
};

template <typename T>
std::vector<T> Slice(const std::vector<T>& values, size_t begin, size_t end) {
  return {values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(end)};
}

uint32_t U32(size_t n) { return static_cast<uint32_t>(n); }

// Splits of one payload kind each. Each takes a layer of its own.
class Splitter {
 public:
  Splitter(const Grid& grid, Dice* dice, Split* split)
      : grid_(grid), dice_(*dice), split_(*split) {}

  void Scalars();
  void AttentionLogits();
  void QkFactors();
  void QkGram();
  void RouterGates();
  void RouterLoad();
  void RouterWeights();
  void RouterCoactivation();
  void TensorStats();
  void PolicyMismatch();

 private:
  // A summary from one of the ranks for which `may` holds, and replicas of it from others.
  template <typename May>
  void Say(const v1::Summary& summary, May may, std::vector<Part>* parts) {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < grid_.ranks(); ++rank) {
      if (may(grid_.At(rank))) ranks.push_back(rank);
    }
    dice_.Shuffle(&ranks);
    ranks.resize(dice_.Between(1, ranks.size()));
    for (const uint32_t rank : ranks) parts->push_back({rank, summary});
  }
  // Any rank that sees the tokens of `shard`.
  auto Sees(size_t shard) const {
    return [this, shard](const v1::Coordinates& at) {
      return at.data() * grid_.context + at.context() == shard;
    };
  }
  void Terms(size_t terms) { split_.terms = std::max(split_.terms, terms); }
  v1::Projection Dense(const std::vector<std::vector<double>>& heads, const std::vector<size_t>& of,
                       size_t r, size_t d);

  const Grid& grid_;
  Dice& dice_;
  Split& split_;
};

void Splitter::Scalars() {
  const v1::Reduction reductions[] = {v1::REDUCTION_LAST, v1::REDUCTION_SUM, v1::REDUCTION_MEAN,
                                      v1::REDUCTION_MAX, v1::REDUCTION_MIN};
  const size_t n = grid_.ranks();
  v1::ScalarBatch* whole = split_.whole.emplace_back().mutable_scalars();
  std::vector<v1::ScalarBatch> parts(n);
  for (uint32_t id = 0; id < std::size(reductions); ++id) {
    v1::ScalarDeclaration& declared = split_.names.scalars[id];
    declared.set_name(absl::StrCat("scalar_", id));
    declared.set_reduction(reductions[id]);
    declared.set_scope(v1::SCOPE_GLOBAL);
    std::vector<double> values = Gaussian(dice_.random(), n), weights(n);
    if (reductions[id] == v1::REDUCTION_LAST) std::fill(values.begin(), values.end(), values[0]);
    for (double& weight : weights) weight = dice_.Real(0.1, 4);
    double sum = 0, magnitude = 0, weighted = 0, weighted_magnitude = 0, weight = 0;
    for (size_t rank = 0; rank < n; ++rank) {
      sum += values[rank];
      magnitude += std::abs(values[rank]);
      weighted += weights[rank] * values[rank];
      weighted_magnitude += weights[rank] * std::abs(values[rank]);
      weight += weights[rank];
      parts[rank].add_ids(id);
      parts[rank].add_values(values[rank]);
      parts[rank].add_weights(weights[rank]);
    }
    double& scale = split_.scales["train." + declared.name()];
    double reduced = values[0];
    if (reductions[id] == v1::REDUCTION_SUM) reduced = sum, scale = magnitude;
    if (reductions[id] == v1::REDUCTION_MEAN) {
      reduced = weighted / weight, scale = weighted_magnitude / weight;
    }
    if (reductions[id] == v1::REDUCTION_MAX)
      reduced = *std::max_element(values.begin(), values.end());
    if (reductions[id] == v1::REDUCTION_MIN)
      reduced = *std::min_element(values.begin(), values.end());
    whole->add_ids(id);
    whole->add_values(reduced);
    whole->add_weights(weight);
  }
  for (uint32_t rank = 0; rank < n; ++rank) {
    *split_.parts.emplace_back(Part{rank, {}}).summary.mutable_scalars() = parts[rank];
  }
  Terms(n);
}

// Heads over tensor ranks, rows over data and context ranks.
void Splitter::AttentionLogits() {
  const size_t heads = grid_.tensor + dice_.Between(0, 3), columns = dice_.Between(2, 12);
  const size_t rows = grid_.token_shards() + dice_.Between(0, 10);
  std::vector<double> logits = Gaussian(dice_.random(), heads * rows * columns, 3);
  for (double& logit : logits) {
    if (dice_.Chance(9)) logit = kMasked;
  }
  const bool complete = dice_.Chance(2), first = dice_.Chance(2), exact = dice_.Chance(2);
  const auto summary = [&](size_t begin, size_t end, size_t row_begin, size_t row_end) {
    v1::Summary out;
    v1::AttentionLogits* payload = out.mutable_attention_logits();
    payload->set_layer(1);
    payload->set_columns_complete(complete);
    payload->set_column_zero_is_first(first);
    std::vector<double> block, maxima;
    for (size_t h = begin; h < end; ++h) {
      payload->add_heads(U32(h));
      const std::vector<double> part =
          Slice(logits, (h * rows + row_begin) * columns, (h * rows + row_end) * columns);
      block.insert(block.end(), part.begin(), part.end());
      // Over all tokens of the shard, sampled or not: its number among the shards breaks ties.
      maxima.push_back(20 + static_cast<double>(h * rows + row_end));
    }
    *payload->mutable_logits() =
        F64Tensor({U32(end - begin), U32(row_end - row_begin), U32(columns)}, block);
    if (exact) *payload->mutable_max_logit() = F64Tensor({U32(end - begin)}, maxima);
    return out;
  };
  split_.whole.push_back(summary(0, heads, 0, rows));
  size_t tensor = 0;
  for (const auto& [begin, end] : dice_.Cut(heads, grid_.tensor)) {
    size_t shard = 0;
    for (const auto& [row_begin, row_end] : dice_.Cut(rows, grid_.token_shards())) {
      const auto sees = Sees(shard++);
      Say(
          summary(begin, end, row_begin, row_end),
          [&](const v1::Coordinates& at) { return sees(at) && at.tensor() == tensor; },
          &split_.parts);
    }
    ++tensor;
  }
  Terms(rows);
}

// [heads, r, d] of the heads `of`, from [d, r] by columns each.
v1::Projection Splitter::Dense(const std::vector<std::vector<double>>& heads,
                               const std::vector<size_t>& of, size_t r, size_t d) {
  std::vector<double> values;
  for (const size_t h : of) values.insert(values.end(), heads[h].begin(), heads[h].end());
  v1::Projection projection;
  *projection.mutable_dense() = F64Tensor({U32(of.size()), U32(r), U32(d)}, values);
  return projection;
}

// Query heads over tensor ranks, with the key heads that they use; data, context and expert ranks
// hold replicas.
void Splitter::QkFactors() {
  const size_t heads = grid_.tensor + dice_.Between(0, 3), r = dice_.Between(1, 4);
  const size_t d = dice_.Between(1, 20), group = dice_.Between(1, heads);
  const size_t key_heads = (heads + group - 1) / group;
  std::vector<std::vector<double>> q(heads), k(key_heads);
  for (auto& head : q) head = Gaussian(dice_.random(), d * r);
  for (auto& head : k) head = Gaussian(dice_.random(), d * r);
  const auto cuts = dice_.Cut(heads, grid_.tensor);
  const auto summary = [&](size_t begin, size_t end) {
    v1::Summary out;
    v1::QkFactors* payload = out.mutable_qk_factors();
    payload->set_layer(2);
    std::vector<size_t> of, keys;
    for (size_t h = begin; h < end; ++h) {
      payload->add_heads(U32(h));
      of.push_back(h);
      if (keys.empty() || keys.back() != h / group) keys.push_back(h / group);
      payload->add_k_index(U32(keys.size() - 1));
    }
    *payload->mutable_q() = Dense(q, of, r, d);
    *payload->mutable_k() = Dense(k, keys, r, d);
    return out;
  };
  const auto say_all = [&](std::vector<v1::Summary>* whole, std::vector<Part>* parts) {
    whole->push_back(summary(0, heads));
    for (uint32_t rank = 0; rank < grid_.ranks(); ++rank) {
      const auto& [begin, end] = cuts[grid_.At(rank).tensor()];
      parts->push_back({rank, summary(begin, end)});
    }
  };
  say_all(&split_.base_whole, &split_.base);
  for (auto* projection : {&q, &k}) {
    for (auto& head : *projection) {
      const std::vector<double> delta = Gaussian(dice_.random(), head.size(), 1e-2);
      for (size_t i = 0; i < head.size(); ++i) head[i] += delta[i];
    }
  }
  say_all(&split_.whole, &split_.parts);
  Terms(d * r);
}

// Rows of a head over any ranks, as sharded weights are; each range has scales of its own. Four
// times as many rows as 2r columns keep singular values of Gaussian heads apart from their noise.
void Splitter::QkGram() {
  const size_t r = dice_.Between(1, 5), ranges = dice_.Between(1, grid_.ranks());
  const size_t d = std::max(8 * r, ranges) + dice_.Between(0, 30);
  const bool single = dice_.Chance(4);
  const reference::Head head = RandomHead(dice_.random(), d, r, 1e-3);
  const auto summary = [&](size_t begin, size_t end) {
    v1::Summary out = GramOf(head, begin, end - begin, single);
    out.mutable_qk_gram()->set_layer(3);
    return out;
  };
  split_.whole.push_back(summary(0, d));
  for (const auto& [begin, end] : dice_.Cut(d, ranges)) {
    Say(
        summary(begin, end), [](const v1::Coordinates&) { return true; }, &split_.parts);
  }
  // A sum of float32 Grams has their errors, whole or not.
  if (single) split_.scales["qk_gram"] = std::numeric_limits<float>::epsilon() / 1e-15;
}

// Tokens over data and context ranks.
void Splitter::RouterGates() {
  const size_t experts = dice_.Between(1, 40), shards = grid_.token_shards();
  const size_t tokens = 2 * shards + dice_.Between(0, 60), k = dice_.Between(1, experts);
  const auto kind = static_cast<v1::ScoreKind>(dice_.Between(1, 4));
  const bool logits = kind <= v1::SCORE_KIND_SIGMOID_LOGITS;
  std::vector<double> scores = Gaussian(dice_.random(), tokens * experts, 2);
  const auto cuts = dice_.Cut(tokens, shards, 2);
  if (!logits) {
    for (double& score : scores) score = std::abs(score);
    // Rows that are no distribution: rejected, but not the first of a shard.
    for (const auto& [begin, end] : cuts) {
      for (size_t t = begin + 1; t < end; ++t) {
        if (dice_.Chance(5)) scores[t * experts] = -1;
      }
    }
  }
  const bool biased = dice_.Chance(3), chosen = dice_.Chance(3);
  const std::vector<double> bias = Gaussian(dice_.random(), experts, 0.1);
  std::vector<int64_t> choices;
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<int64_t> all(experts);
    std::iota(all.begin(), all.end(), 0);
    dice_.Shuffle(&all);
    choices.insert(choices.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k));
  }
  const auto summary = [&](size_t begin, size_t end) {
    v1::Summary out;
    v1::RouterGates* payload = out.mutable_router_gates();
    payload->set_layer(4);
    payload->set_score_kind(kind);
    payload->set_top_k(U32(k));
    *payload->mutable_scores() =
        F64Tensor({U32(end - begin), U32(experts)}, Slice(scores, begin * experts, end * experts));
    if (biased) *payload->mutable_correction_bias() = F64Tensor({U32(experts)}, bias);
    if (chosen) {
      *payload->mutable_chosen() =
          I64Tensor({U32(end - begin), U32(k)}, Slice(choices, begin * k, end * k));
    }
    return out;
  };
  split_.whole.push_back(summary(0, tokens));
  for (size_t shard = 0; shard < shards; ++shard) {
    Say(summary(cuts[shard].first, cuts[shard].second), Sees(shard), &split_.parts);
  }
  Terms(tokens * experts);
}

// Experts over expert ranks, tokens over data and context ranks.
void Splitter::RouterLoad() {
  const size_t experts = grid_.expert + dice_.Between(0, 30), shards = grid_.token_shards();
  const bool named = dice_.Chance(2);
  // What no shard or not every shard knows is not known of the sum.
  const size_t knows_dropped = dice_.Between(0, 2), knows_mass = dice_.Between(0, 2);
  const auto knows = [&](size_t how, size_t shard) { return how == 2 || (how == 1 && shard > 0); };
  struct Load {
    std::vector<int64_t> counts, dropped;
    std::vector<double> mass;
  };
  std::vector<Load> of(shards + 1);  // the last: the sum
  for (Load& load : of) {
    load = {std::vector<int64_t>(experts), std::vector<int64_t>(experts),
            std::vector<double>(experts)};
  }
  for (size_t shard = 0; shard < shards; ++shard) {
    for (size_t e = 0; e < experts; ++e) {
      of[shards].counts[e] += of[shard].counts[e] = static_cast<int64_t>(dice_.Between(1, 1000));
      of[shards].dropped[e] += of[shard].dropped[e] = static_cast<int64_t>(dice_.Between(0, 1));
      of[shards].mass[e] += of[shard].mass[e] = dice_.Real(0.1, 1);
    }
  }
  const auto summary = [&](size_t shard, size_t begin, size_t end, bool dropped, bool mass) {
    v1::Summary out;
    v1::RouterLoad* payload = out.mutable_router_load();
    payload->set_layer(5);
    payload->set_expert_offset(U32(begin));
    *payload->mutable_counts() = I64Tensor({U32(end - begin)}, Slice(of[shard].counts, begin, end));
    if (dropped) {
      *payload->mutable_dropped() =
          I64Tensor({U32(end - begin)}, Slice(of[shard].dropped, begin, end));
    }
    if (mass) {
      *payload->mutable_gate_mass() =
          F64Tensor({U32(end - begin)}, Slice(of[shard].mass, begin, end));
    }
    if (named) payload->set_token_shard(shard);
    return out;
  };
  split_.whole.push_back(summary(shards, 0, experts, knows_dropped == 2, knows_mass == 2));
  const auto cuts = dice_.Cut(experts, grid_.expert);
  for (size_t shard = 0; shard < shards; ++shard) {
    for (size_t part = 0; part < cuts.size(); ++part) {
      const auto sees = Sees(shard);
      Say(
          summary(shard, cuts[part].first, cuts[part].second, knows(knows_dropped, shard),
                  knows(knows_mass, shard)),
          [&](const v1::Coordinates& at) { return sees(at) && at.expert() == part; },
          &split_.parts);
    }
  }
  Terms(experts * (shards + 1));
}

// Columns of W (rows of the hidden dimension) over tensor ranks, as every data rank has them.
void Splitter::RouterWeights() {
  const size_t experts = dice_.Between(1, 10), d = std::max<size_t>(3 * experts, grid_.tensor + 8);
  const auto cuts = dice_.Cut(d, grid_.tensor);
  std::vector<double> weights = Gaussian(dice_.random(), experts * d);
  for (double& weight : weights) weight += 0.5;  // a mean row that is no noise
  const auto summary = [&](size_t begin, size_t end) {
    v1::Summary out;
    v1::RouterWeights* payload = out.mutable_router_weights();
    payload->set_layer(6);
    std::vector<double> columns;
    for (size_t e = 0; e < experts; ++e) {
      const std::vector<double> row = Slice(weights, e * d + begin, e * d + end);
      columns.insert(columns.end(), row.begin(), row.end());
    }
    *payload->mutable_weights() = F64Tensor({U32(experts), U32(end - begin)}, columns);
    payload->mutable_rows()->set_begin(U32(begin));
    payload->mutable_rows()->set_count(U32(end - begin));
    payload->mutable_rows()->set_total(U32(d));
    return out;
  };
  const auto say_all = [&](std::vector<v1::Summary>* whole, std::vector<Part>* parts) {
    whole->push_back(summary(0, d));
    for (uint32_t rank = 0; rank < grid_.ranks(); ++rank) {
      const auto& [begin, end] = cuts[grid_.At(rank).tensor()];
      parts->push_back({rank, summary(begin, end)});
    }
  };
  say_all(&split_.base_whole, &split_.base);
  const std::vector<double> delta = Gaussian(dice_.random(), weights.size(), 1e-2);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += delta[i];
  say_all(&split_.whole, &split_.parts);
  Terms(experts * d);
}

// Tokens over data and context ranks.
void Splitter::RouterCoactivation() {
  const size_t experts = dice_.Between(2, 8), pairs = experts * (experts - 1) / 2;
  const size_t shards = grid_.token_shards();
  const bool mass = dice_.Chance(2);
  std::vector<int64_t> all_counts(pairs);
  std::vector<double> all_mass(experts);
  uint64_t all_tokens = 0;
  const auto summary = [&](const std::vector<int64_t>& counts, const std::vector<double>& masses,
                           uint64_t tokens) {
    v1::Summary out;
    v1::RouterCoactivation* payload = out.mutable_router_coactivation();
    payload->set_layer(7);
    payload->set_experts(U32(experts));
    *payload->mutable_pair_counts() = I64Tensor({U32(pairs)}, counts);
    if (mass) *payload->mutable_gate_mass() = F64Tensor({U32(experts)}, masses);
    payload->set_tokens(tokens);
    return out;
  };
  for (size_t shard = 0; shard < shards; ++shard) {
    std::vector<int64_t> counts(pairs);
    std::vector<double> masses(experts);
    const uint64_t tokens = dice_.Between(1, 1000);
    for (size_t i = 0; i < pairs; ++i) {
      all_counts[i] += counts[i] = static_cast<int64_t>(dice_.Between(0, 1000));
    }
    for (size_t e = 0; e < experts; ++e) all_mass[e] += masses[e] = dice_.Real(0, 1);
    all_tokens += tokens;
    Say(summary(counts, masses, tokens), Sees(shard), &split_.parts);
  }
  split_.whole.push_back(summary(all_counts, all_mass, all_tokens));
  Terms(shards);
}

// Elements of a tensor over all ranks.
void Splitter::TensorStats() {
  const size_t n = grid_.ranks() * 3 + dice_.Between(0, 50);
  const char* const names[] = {"param/w", "update/w", "act/x"};
  v1::TensorStatsBatch* whole = split_.whole.emplace_back().mutable_tensor_stats();
  std::vector<v1::TensorStatsBatch> parts(grid_.ranks());
  for (uint32_t id = 0; id < std::size(names); ++id) {
    v1::TensorDeclaration& declared = split_.names.tensors[id];
    declared.set_name(names[id]);
    declared.set_layer(8);
    std::vector<double> values = Gaussian(dice_.random(), n), inputs = Gaussian(dice_.random(), n);
    for (double& value : values) value += 0.3;
    const auto moments = [&](size_t begin, size_t end) {
      v1::TensorStats stats;
      double sum = 0, square = 0, input_square = 0;
      for (size_t i = begin; i < end; ++i) {
        sum += values[i];
        square += values[i] * values[i];
        input_square += inputs[i] * inputs[i];
      }
      const double count = static_cast<double>(end - begin);
      stats.set_id(id);
      stats.set_count(end - begin);
      stats.set_min(*std::min_element(&values[begin], &values[begin] + (end - begin)));
      stats.set_max(*std::max_element(&values[begin], &values[begin] + (end - begin)));
      stats.set_mean(sum / count);
      stats.set_rms(std::sqrt(square / count));
      if (id == 2) stats.set_input_rms(std::sqrt(input_square / count));
      return stats;
    };
    v1::TensorStats all = moments(0, n);
    const auto cuts = dice_.Cut(n, grid_.ranks());
    for (uint32_t rank = 0; rank < grid_.ranks(); ++rank) {
      v1::TensorStats part = moments(cuts[rank].first, cuts[rank].second);
      part.set_nan_count(dice_.Between(0, 2));
      part.set_inf_count(dice_.Between(0, 2));
      all.set_nan_count(all.nan_count() + part.nan_count());
      all.set_inf_count(all.inf_count() + part.inf_count());
      if (id == 0) {  // the lowest counts
        part.set_stable_rank(dice_.Real(1, 9));
        all.set_stable_rank(rank == 0 ? part.stable_rank()
                                      : std::min(all.stable_rank(), part.stable_rank()));
      }
      *parts[rank].add_stats() = part;
    }
    *whole->add_stats() = all;
  }
  for (uint32_t rank = 0; rank < grid_.ranks(); ++rank) {
    *split_.parts.emplace_back(Part{rank, {}}).summary.mutable_tensor_stats() = parts[rank];
  }
  Terms(n);
}

// Tokens over data and context ranks.
void Splitter::PolicyMismatch() {
  const size_t shards = grid_.token_shards(), n = 40 * shards + dice_.Between(0, 100);
  std::vector<double> trainer(n), rollout(n), weights(n);
  for (size_t i = 0; i < n; ++i) {
    rollout[i] = dice_.Chance(20) ? -40 : dice_.Real(-4, -0.1);
    trainer[i] = std::min(0.0, rollout[i] + dice_.Real(-1, 1) + (dice_.Chance(20) ? 30 : 0));
    weights[i] = dice_.Real(0.1, 2);
  }
  const bool weighted = dice_.Chance(2);
  const auto summary = [&](size_t begin, size_t end, uint64_t routes, uint64_t tokens) {
    v1::Summary out;
    v1::PolicyMismatch* payload = out.mutable_policy_mismatch();
    const std::vector<uint32_t> shape = {U32(end - begin)};
    *payload->mutable_trainer_logprobs() = F64Tensor(shape, Slice(trainer, begin, end));
    *payload->mutable_rollout_logprobs() = F64Tensor(shape, Slice(rollout, begin, end));
    if (weighted) *payload->mutable_weights() = F64Tensor(shape, Slice(weights, begin, end));
    payload->set_routes_compared(10 * (end - begin));
    payload->set_routes_mismatched(routes);
    payload->set_tokens_compared(end - begin);
    payload->set_tokens_mismatched(tokens);
    return out;
  };
  uint64_t all_routes = 0, all_tokens = 0;
  size_t shard = 0;
  for (const auto& [begin, end] : dice_.Cut(n, shards)) {
    const size_t tokens = dice_.Between(0, end - begin), routes = dice_.Between(0, 10 * tokens);
    all_routes += routes;
    all_tokens += tokens;
    Say(summary(begin, end, routes, tokens), Sees(shard++), &split_.parts);
  }
  split_.whole.push_back(summary(0, n, all_routes, all_tokens));
  Terms(n);
}

// The splitter of each payload kind that has statistics.
const std::map<v1::Summary::PayloadCase, void (Splitter::*)()>& Splitters() {
  static const std::map<v1::Summary::PayloadCase, void (Splitter::*)()> splitters = {
      {v1::Summary::kScalars, &Splitter::Scalars},
      {v1::Summary::kAttentionLogits, &Splitter::AttentionLogits},
      {v1::Summary::kQkFactors, &Splitter::QkFactors},
      {v1::Summary::kQkGram, &Splitter::QkGram},
      {v1::Summary::kRouterGates, &Splitter::RouterGates},
      {v1::Summary::kRouterLoad, &Splitter::RouterLoad},
      {v1::Summary::kRouterWeights, &Splitter::RouterWeights},
      {v1::Summary::kRouterCoactivation, &Splitter::RouterCoactivation},
      {v1::Summary::kTensorStats, &Splitter::TensorStats},
      {v1::Summary::kPolicyMismatch, &Splitter::PolicyMismatch},
  };
  return splitters;
}

// A rank on its way from payloads to reports.
class Rank {
 public:
  Rank(uint32_t number, const v1::Coordinates& at, const Split& split) : names_(split.names) {
    sender_.rank = number;
    sender_.coordinates = at;
    sender_.model = split.model;
  }

  model::ShardReport Say(const v1::Summary& summary, int64_t step) {
    model::ShardReport report;
    report.set_rank(sender_.rank);
    report.set_step(step);
    EXPECT_OK(indicators::Summarise(summary, {.sender = sender_, .names = names_, .step = step},
                                    &snapshots_, report.mutable_shards()));
    return report;
  }

 private:
  indicators::Sender sender_;
  const model::StreamNames& names_;
  indicators::Snapshots snapshots_{indicators::Snapshots::Options{}};
};

model::ClosedStep FinishOf(const merge::StepMerger& merger, const v1::ModelShape& model) {
  indicators::History history;
  model::ClosedStep closed;
  closed.run = "run";
  closed.row.step = kStep;
  indicators::Finish(merger.train(), model, /*eval=*/false, &history, &closed);
  return closed;
}

double ValueOf(const model::ClosedStep& closed, const model::SeriesKey& like,
               const std::string& id) {
  model::SeriesKey key = like;
  key.indicator = id;
  for (const model::Sample& sample : closed.samples) {
    if (sample.series == key) return sample.value;
  }
  ADD_FAILURE() << "no " << id << " beside " << like.indicator;
  return 0;
}

// Standard deviations are the root of mean square less squared mean: these are compared squared,
// where the error is that of both, even if they are nearly 0.
const std::map<std::string, std::string>& MeanOfDeviation() {
  static const std::map<std::string, std::string> means = {
      {"router.token_entropy_std", "router.token_entropy"},
      {"router.logit_std", "router.logit_mean"},
      {"tensor.std", "tensor.mean"},
      {"rl.ratio_std", "rl.ratio_mean"},
  };
  return means;
}

// How far `sample` of the whole may be from that of the parts.
double Tolerance(const model::Sample& sample, const model::ClosedStep& whole, const Split& split) {
  const model::SeriesKey& series = sample.series;
  const std::string& id = series.indicator;
  const double value = std::abs(sample.value);
  // 2 N eps for the sums above a quotient, as much for those below it, and twice that for what
  // follows of them (a root, a logarithm, a product of two).
  const double d = 8 * static_cast<double>(split.terms) * 0x1p-53;
  const auto beside = [&](const char* other) { return ValueOf(whole, series, other); };
  if (const auto scale = split.scales.find(id); scale != split.scales.end()) {
    return d * scale->second;
  }
  if (absl::StartsWith(id, "attn.") && !absl::StartsWith(id, "attn.logits")) {
    // qk_spectra.h: exponent 2 to 1e-9, exponent 1 as well where no singular value lies under 1e-5
    // of the largest.
    const auto single = split.scales.find("qk_gram");
    return 1e-9 * (single == split.scales.end() ? 1 : single->second) * std::max(value, 1.0);
  }
  // Differences, by the larger of what they are the difference of.
  if (id == "router.mutual_information" || id == "router.weight_similarity") return d;
  if (id == "router.logit_mean") return d * std::hypot(value, beside("router.logit_std"));
  if (id == "tensor.mean") return d * beside("tensor.rms");
  if (id == "rl.k1") return d * beside("rl.abs_log_ratio");
  if (id == "rl.chi2") return d * (value + 1);
  // Covariance and variances: at least 0.02 of the mean squares for log-probabilities that are
  // spread over [-4, 0].
  if (id == "rl.pearson") return 100 * d;
  // Load is compared with the even one, and the excess over that with the largest possible, which
  // is at least 1 / E.
  if (absl::StartsWith(id, "load.mass.")) return d * (1 + value) * 64;
  // Eigenvalues to eps of the largest, which is value^2 times the smallest.
  if (id == "router.centred_kappa") return d * value * (1 + value * value);
  // |mean row|^2 is a mean of products as large as the largest row's square.
  if (id == "router.centred_conditioning") return d * value * (1 + value * value);
  return d * value;
}

void ExpectSameSamples(const model::ClosedStep& whole, const model::ClosedStep& parts,
                       const Split& split) {
  ASSERT_EQ(whole.samples.size(), parts.samples.size());
  for (size_t i = 0; i < whole.samples.size(); ++i) {
    const model::Sample& a = whole.samples[i];
    const model::Sample& b = parts.samples[i];
    ASSERT_EQ(a.series, b.series) << a.series.indicator << ", " << b.series.indicator;
    const std::string where =
        absl::StrCat(a.series.indicator, " ", a.series.unit_id, " ", a.series.unit_name);
    EXPECT_EQ(a.flags, b.flags) << where;
    const auto mean = MeanOfDeviation().find(a.series.indicator);
    if (mean != MeanOfDeviation().end()) {
      const double square = std::pow(ValueOf(whole, a.series, mean->second), 2);
      EXPECT_NEAR(a.value * a.value, b.value * b.value,
                  8 * static_cast<double>(split.terms) * 0x1p-53 * (a.value * a.value + square))
          << where;
    } else {
      EXPECT_NEAR(a.value, b.value, Tolerance(a, whole, split)) << where;
    }
  }
}

// Reasons are counted by payload: a split changes how many there are, but not of rejected rows.
std::set<std::pair<std::string, std::string>> ReasonsOf(const model::ClosedStep& closed) {
  std::set<std::pair<std::string, std::string>> reasons;
  for (const model::Undefined& undefined : closed.undefined) {
    reasons.emplace(undefined.indicator, undefined.reason);
  }
  return reasons;
}
uint64_t RejectedRows(const model::ClosedStep& closed) {
  for (const model::Undefined& undefined : closed.undefined) {
    if (undefined.reason == "rejected_rows") return undefined.count;
  }
  return 0;
}

class MergeProperties : public ::testing::Test {
 protected:
  Grid AnyGrid() {
    const auto size = [this] { return U32(dice_.Between(1, 3)); };
    return {size(), size(), size(), size()};
  }

  // Every payload of every rank, summarised.
  static std::vector<model::ShardReport> Reports(const Grid& grid, const Split& split) {
    std::vector<Rank> ranks;
    for (uint32_t rank = 0; rank < grid.ranks(); ++rank) {
      ranks.emplace_back(rank, grid.At(rank), split);
    }
    for (const Part& part : split.base) ranks[part.rank].Say(part.summary, kBaseStep);
    std::vector<model::ShardReport> reports;
    for (const Part& part : split.parts) {
      reports.push_back(ranks[part.rank].Say(part.summary, kStep));
    }
    return reports;
  }
  static merge::StepMerger Whole(const Split& split) {
    Rank rank(0, {}, split);
    for (const v1::Summary& summary : split.base_whole) rank.Say(summary, kBaseStep);
    merge::StepMerger merger;
    for (const v1::Summary& summary : split.whole) merger.Add(rank.Say(summary, kStep));
    return merger;
  }

  // Parts in any order, some of them more than once, are the whole.
  void ExpectAdds(const Grid& grid, const Split& split) {
    const merge::StepMerger whole = Whole(split);
    std::vector<model::ShardReport> reports = Reports(grid, split);
    for (const bool repeats : {false, true}) {
      SCOPED_TRACE(repeats ? "with repeats" : "without repeats");
      if (repeats) {
        // What has no source is kept from coming twice by sequence numbers, before the merge.
        for (model::ShardReport& report : reports) {
          report.mutable_shards()->clear_findings();
          report.mutable_shards()->clear_undefined();
        }
        for (size_t more = dice_.Between(1, reports.size()); more > 0; --more) {
          reports.push_back(reports[dice_.Between(0, reports.size() - 1)]);
        }
      }
      dice_.Shuffle(&reports);
      merge::StepMerger merger;
      for (const model::ShardReport& report : reports) merger.Add(report);
      ExpectSame(split, whole, merger, reports, repeats);
    }
  }

 private:
  static void ExpectSame(const Split& split, const merge::StepMerger& whole,
                         const merge::StepMerger& merger,
                         const std::vector<model::ShardReport>& reports, bool repeats) {
    model::ClosedStep expected = FinishOf(whole, split.model);
    model::ClosedStep found = FinishOf(merger, split.model);
    ExpectFirstEffectiveRanks(reports, &expected, &found);
    if (repeats) {
      std::erase_if(expected.samples, [](const model::Sample& sample) {
        return sample.series.indicator == "train.nonfinite";
      });
    } else {
      EXPECT_EQ(ReasonsOf(expected), ReasonsOf(found));
      EXPECT_EQ(RejectedRows(expected), RejectedRows(found));
    }
    ExpectSameSamples(expected, found, split);
    for (const model::FindingShard& finding : merger.train().findings()) {
      EXPECT_NE(finding.kind(), static_cast<uint32_t>(model::Finding::Kind::kReplicaMismatch))
          << finding.ShortDebugString();
    }
    ExpectSameCoactivation(whole.train(), merger.train(), split);
  }

  // One block cannot be put together from parts: the first source's rank stays. Takes these samples
  // out of both steps.
  static void ExpectFirstEffectiveRanks(const std::vector<model::ShardReport>& reports,
                                        model::ClosedStep* expected, model::ClosedStep* found) {
    std::map<int64_t, double> first, kept;  // by head
    for (const model::ShardReport& report : reports) {
      for (const model::LogitShard& shard : report.shards().logits()) {
        if (shard.has_effective_rank()) first.try_emplace(shard.head(), shard.effective_rank());
      }
    }
    const auto is_rank = [](const model::Sample& sample) {
      return sample.series.indicator == "attn.logits.effective_rank";
    };
    for (const model::Sample& sample : found->samples) {
      if (is_rank(sample)) kept[sample.series.unit_id] = sample.value;
    }
    EXPECT_EQ(kept, first);
    std::erase_if(found->samples, is_rank);
    std::erase_if(expected->samples, is_rank);
  }

  // It is stored as it is, without indicators.
  static void ExpectSameCoactivation(const model::StepShards& whole, const model::StepShards& parts,
                                     const Split& split) {
    ASSERT_EQ(whole.coactivation_size(), parts.coactivation_size());
    for (int i = 0; i < whole.coactivation_size(); ++i) {
      MessageDifferencer differencer;
      google::protobuf::util::DefaultFieldComparator near;
      near.set_float_comparison(google::protobuf::util::DefaultFieldComparator::APPROXIMATE);
      const auto* mass = model::CoactivationShard::descriptor()->FindFieldByName("gate_mass");
      near.SetFractionAndMargin(mass, 2 * static_cast<double>(split.terms) * 0x1p-53, 0);
      differencer.set_field_comparator(&near);
      std::string difference;
      differencer.ReportDifferencesToString(&difference);
      EXPECT_TRUE(differencer.Compare(whole.coactivation(i), parts.coactivation(i))) << difference;
    }
  }

 protected:
  Dice dice_{Seed()};
};

TEST_F(MergeProperties, EveryPayloadKindHasASplitter) {
  const google::protobuf::OneofDescriptor& payload =
      *v1::Summary::descriptor()->FindOneofByName("payload");
  for (int i = 0; i < payload.field_count(); ++i) {
    const auto kind = static_cast<v1::Summary::PayloadCase>(payload.field(i)->number());
    if (kind == v1::Summary::kEvent) continue;  // step_merger_test: events are kept as they come
    EXPECT_TRUE(Splitters().contains(kind)) << payload.field(i)->name();
  }
}

TEST_F(MergeProperties, PartsOfAPayloadAddToTheWhole) {
  for (const auto& [kind, splitter] : Splitters()) {
    for (int round = 0; round < 40; ++round) {
      SCOPED_TRACE(absl::StrCat("payload ", kind, ", round ", round));
      const Grid grid = AnyGrid();
      Split split;
      (Splitter(grid, &dice_, &split).*splitter)();
      ExpectAdds(grid, split);
      if (HasFailure()) return;
    }
  }
}

TEST_F(MergeProperties, PartsOfAStepAddToTheWhole) {
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const Grid grid = AnyGrid();
    Split split;
    Splitter splitter(grid, &dice_, &split);
    for (const auto& [kind, of_kind] : Splitters()) (splitter.*of_kind)();
    dice_.Shuffle(&split.parts);
    ExpectAdds(grid, split);
    if (HasFailure()) return;
  }
}

// Tokens are counted once for each data shard, whichever rank of it says them, and evaluation is a
// step of its own.
TEST_F(MergeProperties, TokensAddOverDataShardsAndEvaluationStaysApart) {
  for (int round = 0; round < 50; ++round) {
    const Grid grid = AnyGrid();
    uint64_t sums[2] = {0, 0};
    std::vector<model::ShardReport> reports;
    for (const bool eval : {false, true}) {
      std::map<uint32_t, uint64_t> tokens;
      for (uint32_t rank = 0; rank < grid.ranks(); ++rank) {
        uint64_t& mine = tokens[grid.TokenShard(rank)];
        if (mine == 0) sums[eval] += mine = dice_.Between(1, 1000);
        model::ShardReport report;
        report.set_rank(rank);
        report.set_eval(eval);
        report.set_time_unix_ns(static_cast<int64_t>(rank) + 5);
        report.mutable_shards()->set_tokens(mine);
        report.mutable_shards()->add_token_sources()->set_id(
            indicators::DerivedTokenShard(grid.At(rank)));
        for (size_t times = dice_.Between(1, 3); times > 0; --times) reports.push_back(report);
      }
    }
    dice_.Shuffle(&reports);
    merge::StepMerger merger;
    for (const model::ShardReport& report : reports) merger.Add(report);
    EXPECT_EQ(merger.tokens(), sums[0]);
    EXPECT_EQ(merger.eval().tokens(), sums[1]);
    EXPECT_EQ(merger.ranks(), grid.ranks());
    EXPECT_EQ(merger.time_unix_ns(), int64_t{grid.ranks()} + 4);
  }
}

// A replica that says something else is a finding, whichever comes first, and adds nothing.
TEST_F(MergeProperties, ReplicasThatDisagreeAreFindings) {
  const v1::Summary::PayloadCase kinds[] = {v1::Summary::kRouterGates, v1::Summary::kRouterLoad,
                                            v1::Summary::kPolicyMismatch, v1::Summary::kQkGram};
  for (const auto kind : kinds) {
    for (int round = 0; round < 10; ++round) {
      const Grid grid = AnyGrid();
      Split split;
      (Splitter(grid, &dice_, &split).*Splitters().at(kind))();
      std::vector<model::ShardReport> reports = Reports(grid, split);
      dice_.Shuffle(&reports);
      merge::StepMerger merger;
      for (const model::ShardReport& report : reports) merger.Add(report);
      const model::StepShards before = merger.train();
      model::ShardReport other = reports[dice_.Between(0, reports.size() - 1)];
      other.set_rank(1000);
      model::Source* source = nullptr;
      if (other.shards().gates_size() > 0) {
        source = other.mutable_shards()->mutable_gates(0)->mutable_sources(0);
      } else if (other.shards().load_size() > 0) {
        source = other.mutable_shards()->mutable_load(0)->mutable_sources(0);
      } else if (other.shards().policy_size() > 0) {
        source = other.mutable_shards()->mutable_policy(0)->mutable_sources(0);
      } else {
        source = other.mutable_shards()->mutable_qk(0)->mutable_sources(0);
      }
      source->set_fingerprint(source->fingerprint() + 1);
      other.mutable_shards()->clear_undefined();
      merger.Add(other);
      ASSERT_EQ(merger.train().findings_size(), 1);
      EXPECT_EQ(merger.train().findings(0).kind(),
                static_cast<uint32_t>(model::Finding::Kind::kReplicaMismatch));
      EXPECT_EQ(merger.train().findings(0).rank(), 1000u);
      model::StepShards after = merger.train();
      after.clear_findings();
      EXPECT_TRUE(MessageDifferencer::Equals(before, after));
    }
  }
}

}  // namespace
}  // namespace foreshock::property
