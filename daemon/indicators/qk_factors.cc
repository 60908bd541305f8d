#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/indicators/kernels.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/qk.h"
#include "daemon/indicators/qk_spectra.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {
namespace {

constexpr char kFamily[] = "attn.delta2";

// One head of a projection, as bytes of `dtype` in [r, d] order: in memory the columns of Q.
struct HeadWeights {
  v1::DType dtype = v1::DTYPE_F64;
  std::string bytes;
};

struct Shape {
  size_t heads = 0, r = 0, d = 0;
};

absl::Status ProjectionError(absl::string_view which, uint32_t layer, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("qk_factors.", which, " of layer ", layer, ": ", problem));
}

absl::StatusOr<Shape> ShapeOf(const v1::Projection& projection, absl::string_view which,
                              uint32_t layer) {
  if (projection.has_dense()) {
    const v1::Tensor& dense = projection.dense();
    if (dense.shape_size() != 3 || !IsWellFormed(dense)) {
      return ProjectionError(which, layer, "dense must be [heads, head_dim, hidden_size]");
    }
    return Shape{dense.shape(0), dense.shape(1), dense.shape(2)};
  }
  const v1::LowRank& low_rank = projection.low_rank();
  if (!IsWellFormed(low_rank.up()) || !IsWellFormed(low_rank.down()) ||
      low_rank.up().shape_size() != 3 || low_rank.down().shape_size() != 2 ||
      low_rank.up().shape(2) != low_rank.down().shape(0) ||
      (IsPresent(low_rank.gain()) && ElementCount(low_rank.gain()) != low_rank.down().shape(0))) {
    return ProjectionError(
        which, layer, "low_rank must be up [heads, head_dim, rank], gain [rank], down [rank, d]");
  }
  return Shape{low_rank.up().shape(0), low_rank.up().shape(1), low_rank.down().shape(1)};
}

// The heads of one projection, one after the other.
class HeadReader {
 public:
  HeadReader(const v1::Projection& projection, const Shape& shape)
      : projection_(projection), shape_(shape) {
    if (projection.has_dense()) return;
    down_ = DecodeDoubles(projection.low_rank().down()).values;  // [rank, d] by rows = d x rank
    gain_ = DecodeDoubles(projection.low_rank().gain()).values;
  }

  HeadWeights Head(size_t head) const {
    if (!projection_.has_dense()) return Materialise(head);
    const v1::DType dtype = projection_.dense().dtype();
    const size_t bytes = shape_.r * shape_.d * model::ElementBytes(dtype);
    return {dtype, projection_.dense().data().substr(head * bytes, bytes)};
  }

 private:
  // up . diag(gain) . down, as F64. The product is d x r; nothing larger is formed.
  HeadWeights Materialise(size_t head) const {
    const v1::Tensor& up_tensor = projection_.low_rank().up();
    const size_t rank = projection_.low_rank().down().shape(0);
    const size_t count = shape_.r * rank;
    std::vector<double> up(count), scaled(count), product(shape_.d * shape_.r);
    DecodeDoubles(up_tensor.dtype(),
                  up_tensor.data().data() + head * count * model::ElementBytes(up_tensor.dtype()),
                  count, up.data());
    for (size_t i = 0; i < shape_.r; ++i) {
      for (size_t j = 0; j < rank; ++j) {
        scaled[i + j * shape_.r] = up[i * rank + j] * (gain_.empty() ? 1 : gain_[j]);
      }
    }
    GetKernels().multiply_transposed(down_.data(), shape_.d, scaled.data(), shape_.r, rank,
                                     product.data());
    return {v1::DTYPE_F64, std::string(reinterpret_cast<const char*>(product.data()),
                                       product.size() * sizeof(double))};
  }

  const v1::Projection& projection_;
  const Shape shape_;
  std::vector<double> down_, gain_;
};

std::vector<double> Decode(v1::DType dtype, const std::string& bytes) {
  std::vector<double> values(bytes.size() / model::ElementBytes(dtype));
  DecodeDoubles(dtype, bytes.data(), values.size(), values.data());
  return values;
}

// One weight now and its change since the last snapshot.
struct Change {
  uint64_t fingerprint = 0;
  int64_t base_step = -1;
  std::vector<double> base;
  std::vector<double> delta;
  const char* undefined = nullptr;  // why there is none
};

// Compares with the last snapshot under `key` and replaces it. The same step sent again changes
// nothing and gives nothing.
Change ChangeOf(HeadWeights weights, const Snapshots::Key& key, absl::string_view name,
                int32_t head, const SummariseContext& context, Snapshots* snapshots,
                model::StepShards* out) {
  Change change;
  change.fingerprint = Fingerprint({weights.bytes});
  std::vector<double> now = Decode(weights.dtype, weights.bytes);
  const uint64_t nonfinite = CountNonFinite(now.data(), now.size());
  if (nonfinite > 0) {
    AddNonFinite(context, name, static_cast<int32_t>(key.layer), head, nonfinite, out);
    snapshots->Erase(key);
    change.undefined = "nonfinite";
    return change;
  }
  const WeightSnapshot* last = snapshots->Find(key);
  if (last != nullptr && last->step == context.step) {
    change.undefined = "repeated_step";
    return change;
  }
  if (last != nullptr && last->step < context.step) {
    change.base = Decode(last->dtype, last->bytes);
    change.base_step = last->step;
  }
  if (change.base.size() != now.size()) {
    change.undefined = "no_base";
  } else {
    for (size_t i = 0; i < now.size(); ++i) now[i] -= change.base[i];
    change.delta = std::move(now);
  }
  if (!snapshots->Put(key, {context.step, weights.dtype, std::move(weights.bytes)})) {
    AddUndefined(kFamily, "snapshot_memory", 1, out);
  }
  return change;
}

uint32_t BitsOf(const v1::QkFactors& factors) {
  if (factors.fp32_master()) return SignificandBits(v1::DTYPE_F32);
  if (factors.weight_dtype() != v1::DTYPE_UNSPECIFIED) {
    return SignificandBits(factors.weight_dtype());
  }
  const v1::Projection& q = factors.q();
  return SignificandBits(q.has_dense() ? q.dense().dtype() : q.low_rank().up().dtype());
}

absl::Status Check(const v1::QkFactors& factors, const Shape& q, const Shape& k) {
  const auto error = [&](const std::string& problem) {
    return absl::InvalidArgumentError(
        absl::StrCat("qk_factors of layer ", factors.layer(), ": ", problem));
  };
  if (factors.has_rows() && factors.rows().count() != factors.rows().total()) {
    return error(absl::StrCat("rows ", factors.rows().begin(), "+", factors.rows().count(), " of ",
                              factors.rows().total(),
                              "; factors of row shards cannot be merged, send qk_gram instead"));
  }
  const auto heads = static_cast<size_t>(factors.heads_size());
  if (q.heads != heads || q.r != k.r || q.d != k.d) {
    return error(absl::StrCat("q is ", q.heads, " x ", q.r, " x ", q.d, ", k is ", k.heads, " x ",
                              k.r, " x ", k.d, " for ", heads, " heads"));
  }
  if (factors.k_index_size() == 0 ? k.heads != heads
                                  : static_cast<size_t>(factors.k_index_size()) != heads) {
    return error(absl::StrCat("k_index has ", factors.k_index_size(), " entries for ", heads,
                              " heads and ", k.heads, " key heads"));
  }
  for (uint32_t index : factors.k_index()) {
    if (index >= k.heads) {
      return error(absl::StrCat("k_index ", index, "; allowed are 0..", k.heads - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SummariseQkFactors(const v1::QkFactors& factors, const SummariseContext& context,
                                Snapshots* snapshots, model::StepShards* out) {
  const uint32_t layer = factors.layer();
  FORESHOCK_ASSIGN_OR_RETURN(const Shape q_shape, ShapeOf(factors.q(), "q", layer));
  FORESHOCK_ASSIGN_OR_RETURN(const Shape k_shape, ShapeOf(factors.k(), "k", layer));
  FORESHOCK_RETURN_IF_ERROR(Check(factors, q_shape, k_shape));

  // A key head's snapshot is kept under the first query head that uses it: unlike its index in the
  // payload that is fixed for the attempt, however the client splits its heads over payloads.
  const HeadReader q_heads(factors.q(), q_shape), k_heads(factors.k(), k_shape);
  std::vector<Change> keys(k_shape.heads);
  std::vector<bool> seen(k_shape.heads);
  const auto key_of = [&](int i) {
    return factors.k_index_size() == 0 ? i : static_cast<int>(factors.k_index(i));
  };
  for (int i = 0; i < factors.heads_size(); ++i) {
    const auto j = static_cast<size_t>(key_of(i));
    if (seen[j]) continue;
    seen[j] = true;
    keys[j] =
        ChangeOf(k_heads.Head(j), {Snapshots::Kind::kK, layer, factors.heads(i)}, "qk_factors.k",
                 static_cast<int32_t>(factors.heads(i)), context, snapshots, out);
  }
  for (int i = 0; i < factors.heads_size(); ++i) {
    const uint32_t head = factors.heads(i);
    const Change q =
        ChangeOf(q_heads.Head(static_cast<size_t>(i)), {Snapshots::Kind::kQ, layer, head},
                 "qk_factors.q", static_cast<int32_t>(head), context, snapshots, out);
    const Change& k = keys[static_cast<size_t>(key_of(i))];
    const char* undefined = q.undefined != nullptr ? q.undefined : k.undefined;
    if (undefined == nullptr && q.base_step != k.base_step) undefined = "no_base";
    if (undefined != nullptr) {
      AddUndefined(kFamily, undefined, 1, out);
      continue;
    }
    model::QkShard* shard = out->add_qk();
    shard->set_layer(layer);
    shard->set_head(head);
    shard->set_window_steps(static_cast<uint32_t>(context.step - q.base_step));
    shard->set_base_step(q.base_step);
    model::Source* source = shard->add_sources();
    source->set_id(RowRangeId(0, static_cast<uint32_t>(q_shape.d)));
    const uint64_t both[] = {q.fingerprint, k.fingerprint};
    source->set_fingerprint(
        Fingerprint({absl::string_view(reinterpret_cast<const char*>(both), sizeof(both))}));
    *shard->mutable_finished() = SpectraFromFactors({.q = q.base.data(),
                                                     .k = k.base.data(),
                                                     .delta_q = q.delta.data(),
                                                     .delta_k = k.delta.data(),
                                                     .d = static_cast<uint32_t>(q_shape.d),
                                                     .r = static_cast<uint32_t>(q_shape.r),
                                                     .significand_bits = BitsOf(factors)});
  }
  return absl::OkStatus();
}

}  // namespace foreshock::indicators
