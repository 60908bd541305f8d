#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/grid_gate.h"
#include "daemon/indicators/qk.h"
#include "daemon/indicators/qk_gram_sum.h"
#include "daemon/indicators/qk_spectra.h"
#include "daemon/indicators/spectrum.h"

namespace foreshock::indicators {
namespace {

// Writes the samples of one head.
class HeadWriter {
 public:
  HeadWriter(const model::QkShard& shard, const model::QkSpectra& spectra, SampleWriter* writer)
      : spectra_(spectra),
        layer_(static_cast<int32_t>(shard.layer())),
        head_(shard.head()),
        writer_(writer),
        grid_(spectra.grid_ratio() > kGridRatioMax ? model::kFlagGrid : 0u) {}

  void Write(const model::QkShard& shard) {
    Add("attn.delta.window_steps", shard.window_steps(), 0);
    Family("attn.delta2", spectra_.delta2(), grid_);
    Family("attn.delta3", spectra_.delta3(), grid_);
    Raw("attn.delta_q", spectra_.delta_q(), spectra_.q_norm());
    Raw("attn.delta_k", spectra_.delta_k(), spectra_.k_norm());
    Base();
    if (!spectra_.delta2().defined()) return;
    Add("attn.delta.grid_ratio", spectra_.grid_ratio(), 0);
    const double norm = spectra_.delta2().norm();
    Add("attn.delta.norm_ratio", spectra_.delta3().norm() / norm, grid_);
    Ratio("attn.delta2.relative_norm", norm, spectra_.qk().norm(), grid_);
  }

 private:
  void Add(absl::string_view id, double value, uint32_t flags) {
    writer_->AddUnit(id, layer_, model::Unit::kHead, head_, value, flags);
  }
  void Ratio(absl::string_view id, double above, double below, uint32_t flags) {
    if (below == 0) {
      writer_->AddUndefined(id, "zero_denominator");
    } else {
      Add(id, above / below, flags);
    }
  }

  void Exponent(const std::string& family, absl::string_view suffix, double entropy,
                const model::Spectrum& spectrum, uint32_t flags) {
    Add(absl::StrCat(family, ".entropy", suffix), entropy, flags);
    Add(absl::StrCat(family, ".effective_rank", suffix),
        EffectiveRank(entropy, spectrum.rank_bound()), flags);
    const std::string ratio = absl::StrCat(family, ".entropy_ratio", suffix);
    if (spectrum.rank_bound() > 1) {
      Add(ratio, entropy / std::log(static_cast<double>(spectrum.rank_bound())), flags);
    } else {
      writer_->AddUndefined(ratio, "single_singular_value");
    }
  }

  void Family(const std::string& family, const model::Spectrum& spectrum, uint32_t flags) {
    if (!spectrum.defined()) {
      writer_->AddUndefined(family, "zero_update");
      return;
    }
    Exponent(family, "", spectrum.entropy(), spectrum, flags);
    if (spectrum.l1_reliable()) {
      Exponent(family, "_l1", spectrum.entropy_l1(), spectrum, flags | Gram32());
    } else {
      writer_->AddUndefined(absl::StrCat(family, ".entropy_l1"), "gram_precision");
    }
    Add(absl::StrCat(family, ".stable_rank"), spectrum.stable_rank(), flags);
    Add(absl::StrCat(family, ".norm"), spectrum.norm(), flags);
  }

  // A raw update has its own gate.
  void Raw(const std::string& family, const model::Spectrum& spectrum, double base_norm) {
    uint32_t flags = 0;
    if (spectrum.defined() && base_norm > 0 &&
        UpdateGridRatio(spectra_.significand_bits(), spectrum.norm() / base_norm) > kGridRatioMax) {
      flags = model::kFlagGrid;
    }
    Family(family, spectrum, flags);
    if (spectrum.defined()) {
      Ratio(absl::StrCat(family, ".relative_norm"), spectrum.norm(), base_norm, flags);
    }
  }

  void Base() {
    const model::Spectrum& qk = spectra_.qk();
    Add("attn.w_q.norm", spectra_.q_norm(), 0);
    Add("attn.w_k.norm", spectra_.k_norm(), 0);
    Add("attn.qk.norm", qk.norm(), 0);
    if (!qk.defined()) {
      writer_->AddUndefined("attn.qk", "zero_matrix");
      return;
    }
    Add("attn.qk.effective_rank", EffectiveRank(qk.entropy(), qk.rank_bound()), 0);
    Add("attn.qk.stable_rank", qk.stable_rank(), 0);
    if (qk.l1_reliable()) {
      Add("attn.qk.effective_rank_l1", EffectiveRank(qk.entropy_l1(), qk.rank_bound()), Gram32());
    } else {
      writer_->AddUndefined("attn.qk.effective_rank_l1", "gram_precision");
    }
  }

  uint32_t Gram32() const { return spectra_.gram32() ? model::kFlagGram32 : 0u; }

  const model::QkSpectra& spectra_;
  const int32_t layer_;
  const int64_t head_;
  SampleWriter* const writer_;
  const uint32_t grid_;
};

}  // namespace

void FinishQk(const model::StepShards& merged, SampleWriter* writer) {
  for (const model::QkShard& shard : merged.qk()) {
    if (shard.has_finished()) {
      HeadWriter(shard, shard.finished(), writer).Write(shard);
    } else if (shard.partial().rows_covered() == shard.partial().rows_total()) {
      const model::QkSpectra spectra = SpectraFromGrams(Rebalanced(shard.partial()));
      HeadWriter(shard, spectra, writer).Write(shard);
    } else {
      writer->AddUndefined("attn.delta2", "rows_missing");
    }
  }
}

}  // namespace foreshock::indicators
