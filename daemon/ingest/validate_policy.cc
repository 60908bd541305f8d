#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/tensor_check.h"
#include "daemon/ingest/text.h"
#include "daemon/ingest/validate.h"

namespace foreshock::ingest::internal {
namespace {

// Log-probabilities are <= 0; a log-softmax in float32 may end this far above.
constexpr double kLogProbRounding = 1e-3;

absl::Status CheckLogProbs(const Field& field, const v1::Tensor& tensor) {
  for (size_t i = 0; i < tensor.shape(0); ++i) {
    if (FloatAt(tensor, i) > kLogProbRounding) {  // NaN passes: a finding
      return field.Refuse(absl::StrCat(FloatAt(tensor, i), " at index ", i),
                          "log-probabilities, <= 0");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPart(const Field& field, uint64_t part, uint64_t whole, const char* whole_name) {
  if (part <= whole) return absl::OkStatus();
  return field.Refuse(part, absl::StrCat("0..", whole, " (", whole_name, ")"));
}

}  // namespace

absl::Status PolicyMismatch(const Field& field, const v1::PolicyMismatch& mismatch) {
  const Field trainer(field, "trainer_logprobs");
  FORESHOCK_RETURN_IF_ERROR(CheckTensor(trainer, mismatch.trainer_logprobs(), kWideFloats,
                                        {Extent{"tokens", 1, kPolicyPairsMax}}));
  const Extent tokens = Extent::Exactly("tokens", mismatch.trainer_logprobs().shape(0));
  const Field rollout(field, "rollout_logprobs");
  FORESHOCK_RETURN_IF_ERROR(
      CheckTensor(rollout, mismatch.rollout_logprobs(), kWideFloats, {tokens}));
  FORESHOCK_RETURN_IF_ERROR(CheckLogProbs(trainer, mismatch.trainer_logprobs()));
  FORESHOCK_RETURN_IF_ERROR(CheckLogProbs(rollout, mismatch.rollout_logprobs()));
  if (mismatch.has_weights()) {
    const Field at(field, "weights");
    FORESHOCK_RETURN_IF_ERROR(CheckTensor(at, mismatch.weights(), kWideFloats, {tokens}));
    for (size_t i = 0; i < tokens.low; ++i) {
      const double weight = FloatAt(mismatch.weights(), i);
      if (!(std::isfinite(weight) && weight >= 0)) {
        return at.Refuse(absl::StrCat(weight, " at index ", i), "finite, >= 0");
      }
    }
  }
  FORESHOCK_RETURN_IF_ERROR(CheckPart(Field(field, "routes_mismatched"),
                                      mismatch.routes_mismatched(), mismatch.routes_compared(),
                                      "routes_compared"));
  return CheckPart(Field(field, "tokens_mismatched"), mismatch.tokens_mismatched(),
                   mismatch.tokens_compared(), "tokens_compared");
}

absl::Status Event(const Field& field, const v1::Event& event) {
  if (event.kind() < v1::EVENT_KIND_WARMUP_END || event.kind() > v1::EVENT_KIND_NOTE) {
    return Field(field, "kind")
        .Refuse(
            event.kind(),
            "WARMUP_END, LR_PHASE, BATCH_SIZE, DATA_CHANGE, EVALUATION, CHECKPOINT_SAVED, NOTE");
  }
  if (event.step() < 0 || event.step() > kStepMax) {
    return Field(field, "step").Refuse(absl::StrCat(event.step()), "0..2^53");
  }
  FORESHOCK_RETURN_IF_ERROR(CheckName(Field(field, "name"), event.name(), 0, 256));
  return CheckText(Field(field, "detail"), event.detail(), 4096);
}

}  // namespace foreshock::ingest::internal
