#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/tensor_check.h"
#include "daemon/ingest/validate.h"

namespace foreshock::ingest::internal {
namespace {

// Sizes of one projection, taken from its own tensors.
struct ProjectionShape {
  uint32_t heads = 0;
  uint32_t head_dim = 0;
};

// What a dimension must be: the declared one if known, else up to `limit`.
Extent Declared(const char* name, uint32_t declared, uint32_t limit) {
  return declared != 0 ? Extent::Exactly(name, declared) : Extent{name, 1, limit};
}

// r must be the model's head_dim, but for multi-head latent attention, where it is the part of the
// head without rotary dimensions.
Extent HeadDim(const v1::ModelShape& model) {
  const bool latent = model.attention() == v1::ATTENTION_KIND_MLA;
  return Declared("r", latent ? 0 : model.head_dim(), kHeadDimMax);
}

absl::Status CheckProjection(const Field& field, const v1::Projection& projection, Extent heads,
                             Extent head_dim, Extent rows, ProjectionShape* shape) {
  switch (projection.form_case()) {
    case v1::Projection::kDense: {
      const v1::Tensor& dense = projection.dense();
      FORESHOCK_RETURN_IF_ERROR(
          CheckTensor(Field(field, "dense"), dense, kFloats, {heads, head_dim, rows}));
      *shape = {dense.shape(0), dense.shape(1)};
      return absl::OkStatus();
    }
    case v1::Projection::kLowRank: {
      const Field at(field, "low_rank");
      const v1::LowRank& low_rank = projection.low_rank();
      const v1::Tensor& up = low_rank.up();
      FORESHOCK_RETURN_IF_ERROR(CheckTensor(Field(at, "down"), low_rank.down(), kFloats,
                                            {Extent{"rank", 1, kLowRankMax}, rows}));
      const Extent rank = Extent::Exactly("rank", low_rank.down().shape(0));
      FORESHOCK_RETURN_IF_ERROR(CheckTensor(Field(at, "up"), up, kFloats, {heads, head_dim, rank}));
      if (low_rank.has_gain()) {
        FORESHOCK_RETURN_IF_ERROR(CheckTensor(Field(at, "gain"), low_rank.gain(), kFloats, {rank}));
      }
      *shape = {up.shape(0), up.shape(1)};
      return absl::OkStatus();
    }
    case v1::Projection::FORM_NOT_SET:
      break;
  }
  return field.Refuse("nothing", "dense or low_rank");
}

bool IsPowerOfTwo(double value) {
  int exponent = 0;
  return std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5;
}

absl::Status CheckScales(const Field& field, const google::protobuf::RepeatedField<double>& scales,
                         int heads) {
  if (scales.size() != heads) {
    return field.Refuse(absl::StrCat(scales.size(), " values"),
                        absl::StrCat(heads, ", one per head"));
  }
  for (int i = 0; i < scales.size(); ++i) {
    if (!IsPowerOfTwo(scales[i])) {
      return field.Refuse(absl::StrCat(scales[i], " at index ", i), "powers of two, 2^n > 0");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AttentionLogits(const Field& field, const v1::AttentionLogits& logits,
                             const v1::ModelShape& model) {
  FORESHOCK_RETURN_IF_ERROR(CheckLayer(Field(field, "layer"), logits.layer(), model));
  FORESHOCK_RETURN_IF_ERROR(CheckHeads(Field(field, "heads"), logits.heads(), model));
  const Extent heads = Extent::Exactly("heads", logits.heads_size());
  if (!logits.has_logits() && !logits.has_max_logit()) {
    return field.Refuse("neither logits nor max_logit", "one or both");
  }
  if (logits.has_logits()) {
    FORESHOCK_RETURN_IF_ERROR(CheckTensor(
        Field(field, "logits"), logits.logits(), kFloats,
        {heads, Extent{"rows", 1, kBlockRowsMax}, Extent{"cols", 1, kBlockColumnsMax}}));
  }
  if (logits.has_max_logit()) {
    FORESHOCK_RETURN_IF_ERROR(
        CheckTensor(Field(field, "max_logit"), logits.max_logit(), kFloats, {heads}));
  }
  return absl::OkStatus();
}

absl::Status QkFactors(const Field& field, const v1::QkFactors& factors,
                       const v1::ModelShape& model) {
  FORESHOCK_RETURN_IF_ERROR(CheckLayer(Field(field, "layer"), factors.layer(), model));
  FORESHOCK_RETURN_IF_ERROR(CheckHeads(Field(field, "heads"), factors.heads(), model));
  FORESHOCK_RETURN_IF_ERROR(CheckWeightDType(Field(field, "weight_dtype"), factors.weight_dtype()));
  Extent rows = Declared("rows", model.hidden_size(), kHiddenSizeMax);
  if (factors.has_rows()) {
    FORESHOCK_RETURN_IF_ERROR(CheckRows(Field(field, "rows"), factors.rows(), model));
    if (factors.rows().count() != factors.rows().total()) {
      return Field(field, "rows")
          .Refuse(absl::StrCat(factors.rows().count(), " of ", factors.rows().total(), " rows"),
                  "all rows; the factors of row shards cannot be merged, send QkGram");
    }
    rows = Extent::Exactly("rows", factors.rows().total());
  }
  const uint32_t n = factors.heads_size();
  ProjectionShape q;
  FORESHOCK_RETURN_IF_ERROR(CheckProjection(Field(field, "q"), factors.q(),
                                            Extent::Exactly("heads", n), HeadDim(model), rows, &q));
  const bool indexed = factors.k_index_size() != 0;
  ProjectionShape k;
  FORESHOCK_RETURN_IF_ERROR(
      CheckProjection(Field(field, "k"), factors.k(),
                      indexed ? Extent{"key heads", 1, n} : Extent::Exactly("key heads", n),
                      Extent::Exactly("r", q.head_dim), rows, &k));
  if (!indexed) return absl::OkStatus();
  if (factors.k_index_size() != factors.heads_size()) {
    return Field(field, "k_index")
        .Refuse(absl::StrCat(factors.k_index_size(), " indices"),
                absl::StrCat("none, or ", n, ", one per head"));
  }
  for (int i = 0; i < factors.k_index_size(); ++i) {
    FORESHOCK_RETURN_IF_ERROR(
        Field(field, "k_index", i).CheckRange(factors.k_index(i), 0, k.heads - 1));
  }
  return absl::OkStatus();
}

absl::Status QkGram(const Field& field, const v1::QkGram& gram, const v1::ModelShape& model,
                    int64_t step) {
  FORESHOCK_RETURN_IF_ERROR(CheckLayer(Field(field, "layer"), gram.layer(), model));
  FORESHOCK_RETURN_IF_ERROR(CheckHeads(Field(field, "heads"), gram.heads(), model));
  FORESHOCK_RETURN_IF_ERROR(CheckWeightDType(Field(field, "weight_dtype"), gram.weight_dtype()));
  const Extent r = HeadDim(model);
  FORESHOCK_RETURN_IF_ERROR(Field(field, "head_dim").CheckRange(gram.head_dim(), r.low, r.high));
  if (gram.has_rows()) {
    FORESHOCK_RETURN_IF_ERROR(CheckRows(Field(field, "rows"), gram.rows(), model));
  } else if (model.hidden_size() == 0) {
    return Field(field, "rows")
        .Refuse("nothing, with model.hidden_size unknown",
                "a RowRange, or a hidden_size in the Hello");
  }
  FORESHOCK_RETURN_IF_ERROR(
      Field(field, "window_steps").CheckRange(gram.window_steps(), 1, kWindowStepsMax));
  if (gram.base_step() < 0 || gram.base_step() != step - int64_t{gram.window_steps()}) {
    return Field(field, "base_step")
        .Refuse(absl::StrCat(gram.base_step()),
                absl::StrCat(">= 0 and the report's step less window_steps, ", step, " - ",
                             gram.window_steps()));
  }
  FORESHOCK_RETURN_IF_ERROR(CheckScales(Field(field, "a"), gram.a(), gram.heads_size()));
  FORESHOCK_RETURN_IF_ERROR(CheckScales(Field(field, "q"), gram.q(), gram.heads_size()));
  const Extent heads = Extent::Exactly("heads", gram.heads_size());
  const uint64_t dim = gram.head_dim();  // <= kHeadDimMax, so the triangle is small
  const Extent triangle = Extent::Exactly("r(2r+1)", dim * (2 * dim + 1));
  FORESHOCK_RETURN_IF_ERROR(
      CheckTensor(Field(field, "gram_a"), gram.gram_a(), kWideFloats, {heads, triangle}));
  return CheckTensor(Field(field, "gram_b"), gram.gram_b(), kWideFloats, {heads, triangle});
}

}  // namespace foreshock::ingest::internal
