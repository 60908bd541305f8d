#include "daemon/indicators/policy_mismatch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/notes.h"
#include "daemon/indicators/sources.h"
#include "daemon/indicators/tensor.h"

namespace foreshock::indicators {
namespace {

constexpr double kClamp = 20;                // of the log ratio, before the exponential
constexpr double kLogProbabilityMax = 1e-3;  // rounding may leave a little above 0
constexpr double kTailRatio = 2;

// e^x - x - 1 without cancellation: a series below 0.1 (the tail after x^10 is under 1e-18 of it).
double ExpMinusLinear(double x) {
  if (std::abs(x) > 0.1) return std::expm1(x) - x;
  double term = x * x / 2, sum = 0;
  for (int n = 3; n <= 13; ++n) {
    sum += term;
    term *= x / n;
  }
  return sum;
}

void AddPair(double trainer, double rollout, double weight, model::PolicyShard* shard) {
  const double exact = trainer - rollout;
  const double delta = std::clamp(exact, -kClamp, kClamp);
  const double rho = std::exp(delta);
  const double p = std::exp(trainer), q = std::exp(rollout);
  const double difference = std::abs(p - q);
  shard->set_pairs(shard->pairs() + 1);
  shard->set_weight_sum(shard->weight_sum() + weight);
  shard->set_delta_sum(shard->delta_sum() + weight * delta);
  shard->set_delta_abs_sum(shard->delta_abs_sum() + weight * std::abs(delta));
  shard->set_k3_sum(shard->k3_sum() + weight * ExpMinusLinear(delta));
  shard->set_ratio_sum(shard->ratio_sum() + weight * rho);
  shard->set_ratio_square_sum(shard->ratio_square_sum() + weight * rho * rho);
  if (std::max(rho, 1 / rho) > kTailRatio) shard->set_tail_sum(shard->tail_sum() + weight);
  shard->set_p_trainer_sum(shard->p_trainer_sum() + weight * p);
  shard->set_p_rollout_sum(shard->p_rollout_sum() + weight * q);
  shard->set_p_trainer_square_sum(shard->p_trainer_square_sum() + weight * p * p);
  shard->set_p_rollout_square_sum(shard->p_rollout_square_sum() + weight * q * q);
  shard->set_p_cross_sum(shard->p_cross_sum() + weight * p * q);
  shard->set_p_diff_sum(shard->p_diff_sum() + weight * difference);
  shard->set_p_diff_max(std::max(shard->p_diff_max(), difference));
  if (exact != delta) shard->set_clamped(shard->clamped() + 1);
}

void AddRatios(const model::PolicyShard& shard, SampleWriter* writer) {
  const double n = shard.weight_sum();
  const double mean = shard.ratio_sum() / n;
  const double square = shard.ratio_square_sum() / n;
  const auto add = [&](absl::string_view id, double value) {
    writer->Add(id, model::kNoLayer, value);
  };
  add("rl.k1", -shard.delta_sum() / n);
  add("rl.k3", shard.k3_sum() / n);
  add("rl.abs_log_ratio", shard.delta_abs_sum() / n);
  add("rl.ratio_tail", shard.tail_sum() / n);
  add("rl.ratio_mean", mean);
  add("rl.ratio_std", std::sqrt(std::max(0.0, square - mean * mean)));
  add("rl.ess", std::min(1.0, mean * mean / square));
  add("rl.chi2", square - 1);
  add("rl.prob_diff_mean", shard.p_diff_sum() / n);
  add("rl.prob_diff_max", shard.p_diff_max());
  add("rl.clamped", static_cast<double>(shard.clamped()));
  const double p = shard.p_trainer_sum() / n, q = shard.p_rollout_sum() / n;
  const double p_variance = shard.p_trainer_square_sum() / n - p * p;
  const double q_variance = shard.p_rollout_square_sum() / n - q * q;
  // Equal probabilities leave rounding noise of about an ulp of the mean square.
  constexpr double kNoise = 1e-14;
  if (p_variance <= kNoise * p * p || q_variance <= kNoise * q * q) {
    writer->AddUndefined("rl.pearson", "zero_variance");
    return;
  }
  const double covariance = shard.p_cross_sum() / n - p * q;
  add("rl.pearson", std::clamp(covariance / std::sqrt(p_variance * q_variance), -1.0, 1.0));
}

}  // namespace

absl::Status SummarisePolicy(const v1::PolicyMismatch& policy, const SummariseContext& context,
                             model::StepShards* out) {
  const TensorDoubles trainer = DecodeDoubles(policy.trainer_logprobs());
  const TensorDoubles rollout = DecodeDoubles(policy.rollout_logprobs());
  const TensorDoubles weights = DecodeDoubles(policy.weights());
  const size_t n = trainer.values.size();
  const auto error = [](const std::string& problem) {
    return absl::InvalidArgumentError(absl::StrCat("policy_mismatch: ", problem));
  };
  if (rollout.values.size() != n || (!weights.values.empty() && weights.values.size() != n)) {
    return error(absl::StrCat(n, " trainer and ", rollout.values.size(),
                              " rollout log-probabilities, ", weights.values.size(), " weights"));
  }
  const auto weight_of = [&](size_t i) { return weights.values.empty() ? 1.0 : weights.values[i]; };
  for (size_t i = 0; i < n; ++i) {
    if (trainer.values[i] > kLogProbabilityMax || rollout.values[i] > kLogProbabilityMax) {
      return error(absl::StrCat("log-probability above 0 at ", i));
    }
    if (weight_of(i) < 0) return error(absl::StrCat("negative weight at ", i));
  }
  if (policy.routes_mismatched() > policy.routes_compared() ||
      policy.tokens_mismatched() > policy.tokens_compared()) {
    return error("more mismatched than compared");
  }
  AddNonFinite(context, "policy_mismatch.trainer_logprobs", model::kNoLayer, -1, trainer.nonfinite,
               out);
  AddNonFinite(context, "policy_mismatch.rollout_logprobs", model::kNoLayer, -1, rollout.nonfinite,
               out);
  AddNonFinite(context, "policy_mismatch.weights", model::kNoLayer, -1, weights.nonfinite, out);
  model::PolicyShard* shard = out->add_policy();
  model::Source* source = shard->add_sources();
  source->set_id(TokenShardOf(policy, context.sender.coordinates));
  source->set_fingerprint(
      Fingerprint({policy.trainer_logprobs().data(), policy.rollout_logprobs().data()}));
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(trainer.values[i]) || !std::isfinite(rollout.values[i]) ||
        !std::isfinite(weight_of(i))) {
      continue;
    }
    AddPair(trainer.values[i], rollout.values[i], weight_of(i), shard);
  }
  shard->set_routes_compared(policy.routes_compared());
  shard->set_routes_mismatched(policy.routes_mismatched());
  shard->set_tokens_compared(policy.tokens_compared());
  shard->set_tokens_mismatched(policy.tokens_mismatched());
  return absl::OkStatus();
}

void FinishPolicy(const model::StepShards& merged, SampleWriter* writer) {
  for (const model::PolicyShard& shard : merged.policy()) {
    if (shard.weight_sum() > 0) {
      AddRatios(shard, writer);
    } else {
      writer->AddUndefined("rl", "no_pairs");
    }
    if (shard.routes_compared() > 0) {
      writer->Add("rl.route_mismatch", model::kNoLayer,
                  static_cast<double>(shard.routes_mismatched()) /
                      static_cast<double>(shard.routes_compared()));
    }
    if (shard.tokens_compared() > 0) {
      writer->Add("rl.route_mismatch_any", model::kNoLayer,
                  static_cast<double>(shard.tokens_mismatched()) /
                      static_cast<double>(shard.tokens_compared()));
    }
  }
}

}  // namespace foreshock::indicators
