#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/packed.h"
#include "daemon/indicators/qk.h"
#include "daemon/indicators/qk_gram_sum.h"
#include "daemon/indicators/qk_spectra.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {
namespace {

bool IsPowerOfTwo(double x) {
  int exponent;
  return std::isfinite(x) && x > 0 && std::frexp(x, &exponent) == 0.5;
}

// Packed triangle of one head.
std::vector<double> HeadTriangle(const v1::Tensor& tensor, size_t head, size_t size) {
  std::vector<double> packed(size);
  DecodeDoubles(tensor.dtype(),
                tensor.data().data() + head * size * model::ElementBytes(tensor.dtype()), size,
                packed.data());
  return packed;
}

bool NegativeDiagonal(const std::vector<double>& packed, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (packed[PackedSize(i + 1) - 1] < 0) return true;
  }
  return false;
}

uint32_t BitsOf(const v1::QkGram& gram) {
  return gram.fp32_master() || gram.weight_dtype() == v1::DTYPE_UNSPECIFIED
             ? SignificandBits(v1::DTYPE_F32)
             : SignificandBits(gram.weight_dtype());
}

absl::Status Error(const v1::QkGram& gram, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat("qk_gram of layer ", gram.layer(), ": ", problem));
}

absl::Status Check(const v1::QkGram& gram) {
  const auto heads = static_cast<size_t>(gram.heads_size());
  const size_t n = 2 * size_t{gram.head_dim()};
  const size_t size = PackedSize(n);
  if (n == 0 || gram.a_size() != gram.heads_size() || gram.q_size() != gram.heads_size() ||
      ElementCount(gram.gram_a()) != heads * size || ElementCount(gram.gram_b()) != heads * size) {
    return Error(gram, absl::StrCat("a, q and Grams do not fit ", heads, " heads of dimension ",
                                    gram.head_dim(), " (", size, " elements a head)"));
  }
  for (int i = 0; i < gram.heads_size(); ++i) {
    if (!IsPowerOfTwo(gram.a(i)) || !IsPowerOfTwo(gram.q(i))) {
      return Error(gram, absl::StrCat("a = ", gram.a(i), ", q = ", gram.q(i), " of head ",
                                      gram.heads(i), "; allowed are powers of two"));
    }
    for (const v1::Tensor* tensor : {&gram.gram_a(), &gram.gram_b()}) {
      if (NegativeDiagonal(HeadTriangle(*tensor, static_cast<size_t>(i), size), n)) {
        return Error(gram,
                     absl::StrCat("head ", gram.heads(i),
                                  " has a negative diagonal element; a Gram matrix has none"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SummariseQkGram(const v1::QkGram& gram, const SummariseContext& context,
                             model::StepShards* out) {
  if (absl::Status status = Check(gram); !status.ok()) return status;
  const uint32_t d = gram.has_rows() ? gram.rows().total() : context.sender.model.hidden_size();
  if (d == 0) {
    AddUndefined("attn.delta2", "unknown_shape", static_cast<uint64_t>(gram.heads_size()), out);
    return absl::OkStatus();
  }
  const uint32_t begin = gram.has_rows() ? gram.rows().begin() : 0;
  const uint32_t count = gram.has_rows() ? gram.rows().count() : d;
  const size_t n = 2 * size_t{gram.head_dim()};
  const size_t size = PackedSize(n);
  for (int i = 0; i < gram.heads_size(); ++i) {
    const std::vector<double> a = HeadTriangle(gram.gram_a(), static_cast<size_t>(i), size);
    const std::vector<double> b = HeadTriangle(gram.gram_b(), static_cast<size_t>(i), size);
    const uint64_t nonfinite = CountNonFinite(a.data(), size) + CountNonFinite(b.data(), size);
    if (nonfinite > 0) {
      AddNonFinite(context, "qk_gram", static_cast<int32_t>(gram.layer()),
                   static_cast<int32_t>(gram.heads(i)), nonfinite, out);
      AddUndefined("attn.delta2", "nonfinite", 1, out);
      continue;
    }
    model::QkShard* shard = out->add_qk();
    shard->set_layer(gram.layer());
    shard->set_head(gram.heads(i));
    shard->set_window_steps(gram.window_steps());
    shard->set_base_step(gram.base_step());
    model::Source* source = shard->add_sources();
    source->set_id(RowRangeId(begin, count));
    source->set_fingerprint(Fingerprint(
        {absl::string_view(reinterpret_cast<const char*>(a.data()), size * sizeof(double)),
         absl::string_view(reinterpret_cast<const char*>(b.data()), size * sizeof(double))}));
    QkGrams grams{.gram_a = Unpack(a, n),
                  .gram_b = Unpack(b, n),
                  .a = gram.a(i),
                  .q = gram.q(i),
                  .d = d,
                  .r = gram.head_dim(),
                  .significand_bits = BitsOf(gram),
                  .single_precision = gram.gram_a().dtype() == v1::DTYPE_F32 ||
                                      gram.gram_b().dtype() == v1::DTYPE_F32};
    if (count == d) {
      *shard->mutable_finished() = SpectraFromGrams(grams);
    } else {
      *shard->mutable_partial() = UnscaledSum(grams, count);
    }
  }
  return absl::OkStatus();
}

}  // namespace foreshock::indicators
