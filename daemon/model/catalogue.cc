#include "daemon/model/catalogue.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace foreshock::model {
namespace {

constexpr double kAsStored = 0;
constexpr double kTenThousandth = 1e-4;  // spectra and router ratios, those of counts excepted

// clang-format off
constexpr IndicatorInfo kIndicators[] = {
    // id, quantity, unit, per layer, range, version, storage, precision, help
    {"attn.delta.grid_ratio", "ratio", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Predicted share of number-grid noise in the first-order update; above 0.02 its points carry the flag grid"},
    {"attn.delta.norm_ratio", "ratio", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Norm of the second-order over the first-order update: window too long or learning rate too high when large"},
    {"attn.delta.window_steps", "steps", Unit::kHead, true, "[1, inf)", 1, Storage::kI64, kAsStored,
     "Optimizer steps between the two weight snapshots"},
    {"attn.delta2.effective_rank", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy) of the first-order update of the QK operator over the window"},
    {"attn.delta2.effective_rank_l1", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy_l1) of the first-order update of the QK operator over the window"},
    {"attn.delta2.entropy", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the squared singular values of the first-order update of the QK operator over the window; m = min(d, 2r)"},
    {"attn.delta2.entropy_l1", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the singular values (exponent 1) of the first-order update of the QK operator over the window; m = min(d, 2r)"},
    {"attn.delta2.entropy_ratio", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy / ln m of the first-order update of the QK operator over the window"},
    {"attn.delta2.entropy_ratio_l1", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy_l1 / ln m of the first-order update of the QK operator over the window"},
    {"attn.delta2.norm", "weight_units_squared", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Frobenius norm of the first-order update of the QK operator over the window"},
    {"attn.delta2.relative_norm", "ratio", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Norm of the first-order update over the norm of W = Q K^T at the base"},
    {"attn.delta2.stable_rank", "1", Unit::kHead, true, "[1, effective_rank]", 1, Storage::kF32, kTenThousandth,
     "Squared Frobenius norm over squared spectral norm of the first-order update of the QK operator over the window"},
    {"attn.delta3.effective_rank", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy) of the second-order update of the QK operator"},
    {"attn.delta3.effective_rank_l1", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy_l1) of the second-order update of the QK operator"},
    {"attn.delta3.entropy", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the squared singular values of the second-order update of the QK operator; m = min(d, r)"},
    {"attn.delta3.entropy_l1", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the singular values (exponent 1) of the second-order update of the QK operator; m = min(d, r)"},
    {"attn.delta3.entropy_ratio", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy / ln m of the second-order update of the QK operator"},
    {"attn.delta3.entropy_ratio_l1", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy_l1 / ln m of the second-order update of the QK operator"},
    {"attn.delta3.norm", "weight_units_squared", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Frobenius norm of the second-order update of the QK operator"},
    {"attn.delta3.stable_rank", "1", Unit::kHead, true, "[1, effective_rank]", 1, Storage::kF32, kTenThousandth,
     "Squared Frobenius norm over squared spectral norm of the second-order update of the QK operator"},
    {"attn.delta_k.effective_rank", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy) of the raw update of W_K"},
    {"attn.delta_k.effective_rank_l1", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy_l1) of the raw update of W_K"},
    {"attn.delta_k.entropy", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the squared singular values of the raw update of W_K; m = min(d, r)"},
    {"attn.delta_k.entropy_l1", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the singular values (exponent 1) of the raw update of W_K; m = min(d, r)"},
    {"attn.delta_k.entropy_ratio", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy / ln m of the raw update of W_K"},
    {"attn.delta_k.entropy_ratio_l1", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy_l1 / ln m of the raw update of W_K"},
    {"attn.delta_k.norm", "weight_units", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Frobenius norm of the raw update of W_K"},
    {"attn.delta_k.relative_norm", "ratio", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Norm of the update of W_K over the norm of W_K at the base"},
    {"attn.delta_k.stable_rank", "1", Unit::kHead, true, "[1, effective_rank]", 1, Storage::kF32, kTenThousandth,
     "Squared Frobenius norm over squared spectral norm of the raw update of W_K"},
    {"attn.delta_q.effective_rank", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy) of the raw update of W_Q"},
    {"attn.delta_q.effective_rank_l1", "1", Unit::kHead, true, "[1, m]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy_l1) of the raw update of W_Q"},
    {"attn.delta_q.entropy", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the squared singular values of the raw update of W_Q; m = min(d, r)"},
    {"attn.delta_q.entropy_l1", "nats", Unit::kHead, true, "[0, ln m]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the singular values (exponent 1) of the raw update of W_Q; m = min(d, r)"},
    {"attn.delta_q.entropy_ratio", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy / ln m of the raw update of W_Q"},
    {"attn.delta_q.entropy_ratio_l1", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy_l1 / ln m of the raw update of W_Q"},
    {"attn.delta_q.norm", "weight_units", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Frobenius norm of the raw update of W_Q"},
    {"attn.delta_q.relative_norm", "ratio", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Norm of the update of W_Q over the norm of W_Q at the base"},
    {"attn.delta_q.stable_rank", "1", Unit::kHead, true, "[1, effective_rank]", 1, Storage::kF32, kTenThousandth,
     "Squared Frobenius norm over squared spectral norm of the raw update of W_Q"},
    {"attn.logits.effective_rank", "1", Unit::kHead, true, "[1, min(rows, columns)]", 1, Storage::kF32, kTenThousandth,
     "Effective rank of the logit block on columns unmasked in all rows"},
    {"attn.logits.entropy", "nats", Unit::kHead, true, "[0, ln columns]", 1, Storage::kF32, kTenThousandth,
     "Mean entropy of the attention rows"},
    {"attn.logits.entropy_ratio", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "Mean of row entropy over ln of its valid columns"},
    {"attn.logits.max", "1", Unit::kHead, true, "(-inf, inf)", 1, Storage::kF32, kAsStored,
     "Largest scaled attention logit; exact if the client sent it, else of the sampled block"},
    {"attn.logits.sink_fraction", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kAsStored,
     "Share of heads with more than 0.3 mean weight on column 0"},
    {"attn.logits.top_probability", "ratio", Unit::kHead, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "Mean of the largest attention probability per row"},
    {"attn.qk.effective_rank", "1", Unit::kHead, true, "[1, min(d, r)]", 1, Storage::kF32, kTenThousandth,
     "Effective rank of W = Q K^T at the base"},
    {"attn.qk.effective_rank_l1", "1", Unit::kHead, true, "[1, min(d, r)]", 1, Storage::kF32, kTenThousandth,
     "Effective rank (exponent 1) of W = Q K^T at the base"},
    {"attn.qk.norm", "weight_units_squared", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Frobenius norm of W = Q K^T at the base"},
    {"attn.qk.stable_rank", "1", Unit::kHead, true, "[1, effective_rank]", 1, Storage::kF32, kTenThousandth,
     "Stable rank of W = Q K^T at the base"},
    {"attn.w_k.norm", "weight_units", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Frobenius norm of W_K of the head at the base"},
    {"attn.w_q.norm", "weight_units", Unit::kHead, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Frobenius norm of W_Q of the head at the base"},
    {"load.cv", "ratio", Unit::kNone, true, "[0, sqrt(E/k - 1)]", 1, Storage::kF32, kTenThousandth,
     "Coefficient of variation over experts of the expert load"},
    {"load.dead_fraction", "ratio", Unit::kNone, true, "[0, 1 - k/E]", 1, Storage::kF32, kAsStored,
     "Share of experts with under 1 % of the even load over the last 200 steps"},
    {"load.drop_fraction", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kAsStored,
     "Assignments dropped by capacity over all"},
    {"load.effective_experts", "1", Unit::kNone, true, "[k, E]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy) of the expert load"},
    {"load.entropy", "nats", Unit::kNone, true, "[ln k, ln E]", 1, Storage::kF32, kTenThousandth,
     "Entropy over experts of the expert load"},
    {"load.entropy_ratio", "ratio", Unit::kNone, true, "[ln k/ln E, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy / ln E of the expert load"},
    {"load.mass.cv", "ratio", Unit::kNone, true, "[0, sqrt(E/k - 1)]", 1, Storage::kF32, kTenThousandth,
     "Coefficient of variation over experts of the gate mass"},
    {"load.mass.effective_experts", "1", Unit::kNone, true, "[k, E]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy) of the gate mass"},
    {"load.mass.entropy", "nats", Unit::kNone, true, "[ln k, ln E]", 1, Storage::kF32, kTenThousandth,
     "Entropy over experts of the gate mass"},
    {"load.mass.entropy_ratio", "ratio", Unit::kNone, true, "[ln k/ln E, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy / ln E of the gate mass"},
    {"load.mass.max_violation", "1", Unit::kNone, true, "[0, E/k - 1]", 1, Storage::kF32, kTenThousandth,
     "Largest share over the even share, minus 1, of the gate mass"},
    {"load.mass.max_violation_ratio", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "max_violation over its bound E/k - 1 of the gate mass"},
    {"load.mass.mean_violation", "1", Unit::kNone, true, "[0, 2(1 - k/E)]", 1, Storage::kF32, kTenThousandth,
     "Mean absolute deviation from the even share of the gate mass"},
    {"load.mass.min_violation", "1", Unit::kNone, true, "[-1, 0]", 1, Storage::kF32, kTenThousandth,
     "Smallest share over the even share, minus 1, of the gate mass"},
    {"load.max_violation", "1", Unit::kNone, true, "[0, E/k - 1]", 1, Storage::kF32, kAsStored,
     "Largest share over the even share, minus 1, of the expert load"},
    {"load.max_violation_ratio", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kAsStored,
     "max_violation over its bound E/k - 1 of the expert load"},
    {"load.mean_violation", "1", Unit::kNone, true, "[0, 2(1 - k/E)]", 1, Storage::kF32, kAsStored,
     "Mean absolute deviation from the even share of the expert load"},
    {"load.min_violation", "1", Unit::kNone, true, "[-1, 0]", 1, Storage::kF32, kAsStored,
     "Smallest share over the even share, minus 1, of the expert load"},
    {"load.share", "ratio", Unit::kExpert, true, "[0, E/k]", 1, Storage::kF32, kAsStored,
     "Share of the expert over the even share"},
    {"rl.abs_log_ratio", "nats", Unit::kNone, false, "[0, inf)", 1, Storage::kF32, kAsStored,
     "Mean absolute log ratio"},
    {"rl.chi2", "ratio", Unit::kNone, false, "[-1, inf)", 1, Storage::kF32, kAsStored,
     "Mean squared ratio minus 1"},
    {"rl.clamped", "count", Unit::kNone, false, "[0, inf)", 1, Storage::kI64, kAsStored,
     "Tokens whose log ratio was clamped to 20"},
    {"rl.ess", "ratio", Unit::kNone, false, "(0, 1]", 1, Storage::kF32, kAsStored,
     "Effective sample size over sample size"},
    {"rl.k1", "nats", Unit::kNone, false, "(-inf, inf)", 1, Storage::kF32, kAsStored,
     "Mean of rollout minus trainer log-probability"},
    {"rl.k3", "nats", Unit::kNone, false, "[0, inf)", 1, Storage::kF32, kAsStored,
     "Mean of rho - ln rho - 1, rho the probability ratio"},
    {"rl.pearson", "ratio", Unit::kNone, false, "[-1, 1]", 1, Storage::kF32, kAsStored,
     "Correlation of the two probabilities"},
    {"rl.prob_diff_max", "ratio", Unit::kNone, false, "[0, 1]", 1, Storage::kF32, kAsStored,
     "Largest absolute difference of the two probabilities"},
    {"rl.prob_diff_mean", "ratio", Unit::kNone, false, "[0, 1]", 1, Storage::kF32, kAsStored,
     "Mean absolute difference of the two probabilities"},
    {"rl.ratio_mean", "ratio", Unit::kNone, false, "[0, inf)", 1, Storage::kF32, kAsStored,
     "Mean probability ratio"},
    {"rl.ratio_std", "ratio", Unit::kNone, false, "[0, inf)", 1, Storage::kF32, kAsStored,
     "Standard deviation of the probability ratio"},
    {"rl.ratio_tail", "ratio", Unit::kNone, false, "[0, 1]", 1, Storage::kF32, kAsStored,
     "Share of tokens with a ratio above 2 or under 1/2"},
    {"rl.route_mismatch", "ratio", Unit::kNone, false, "[0, 1]", 1, Storage::kF32, kAsStored,
     "Share of (token, layer) pairs with different expert sets"},
    {"rl.route_mismatch_any", "ratio", Unit::kNone, false, "[0, 1]", 1, Storage::kF32, kAsStored,
     "Share of tokens with a different expert set in any layer"},
    {"router.bias_overlap", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "Jaccard overlap of the selection with and without the correction bias"},
    {"router.centred_conditioning", "ratio", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Largest distance of a router row from the mean row, over the norm of the mean row"},
    {"router.centred_effective_rank", "1", Unit::kNone, true, "[1, E-1]", 1, Storage::kF32, kTenThousandth,
     "Effective rank of the centred router weights"},
    {"router.centred_kappa", "ratio", Unit::kNone, true, "[1, inf)", 1, Storage::kF32, kTenThousandth,
     "Condition number of the centred router weights"},
    {"router.logit_absmax", "1", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Largest absolute router logit"},
    {"router.logit_mean", "1", Unit::kNone, true, "(-inf, inf)", 1, Storage::kF32, kTenThousandth,
     "Mean router logit"},
    {"router.logit_std", "1", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Standard deviation of the router logits"},
    {"router.margin_mean", "1", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Mean gap between the lowest selected and the highest other score, bias included"},
    {"router.margin_min", "1", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Smallest such gap"},
    {"router.margin_p10", "1", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "10th percentile of that gap, within 2 %"},
    {"router.mutual_information", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "Entropy of the mean router distribution minus mean token entropy, over ln E"},
    {"router.sampled_load.cv", "ratio", Unit::kNone, true, "[0, sqrt(E/k - 1)]", 1, Storage::kF32, kTenThousandth,
     "Coefficient of variation over experts of the sampled expert load"},
    {"router.sampled_load.effective_experts", "1", Unit::kNone, true, "[k, E]", 1, Storage::kF32, kTenThousandth,
     "exp(entropy) of the sampled expert load"},
    {"router.sampled_load.entropy", "nats", Unit::kNone, true, "[ln k, ln E]", 1, Storage::kF32, kTenThousandth,
     "Entropy over experts of the sampled expert load"},
    {"router.sampled_load.entropy_ratio", "ratio", Unit::kNone, true, "[ln k/ln E, 1]", 1, Storage::kF32, kTenThousandth,
     "entropy / ln E of the sampled expert load"},
    {"router.sampled_load.max_violation", "1", Unit::kNone, true, "[0, E/k - 1]", 1, Storage::kF32, kAsStored,
     "Largest share over the even share, minus 1, of the sampled expert load"},
    {"router.sampled_load.max_violation_ratio", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kAsStored,
     "max_violation over its bound E/k - 1 of the sampled expert load"},
    {"router.sampled_load.mean_violation", "1", Unit::kNone, true, "[0, 2(1 - k/E)]", 1, Storage::kF32, kAsStored,
     "Mean absolute deviation from the even share of the sampled expert load"},
    {"router.sampled_load.min_violation", "1", Unit::kNone, true, "[-1, 0]", 1, Storage::kF32, kAsStored,
     "Smallest share over the even share, minus 1, of the sampled expert load"},
    {"router.token_entropy", "nats", Unit::kNone, true, "[0, ln E]", 1, Storage::kF32, kTenThousandth,
     "Mean entropy of the full router distribution per token"},
    {"router.token_entropy_min", "nats", Unit::kNone, true, "[0, ln E]", 1, Storage::kF32, kTenThousandth,
     "Smallest router entropy of a token"},
    {"router.token_entropy_ratio", "ratio", Unit::kNone, true, "[0, 1]", 1, Storage::kF32, kTenThousandth,
     "token_entropy / ln E"},
    {"router.token_entropy_std", "nats", Unit::kNone, true, "[0, ln E]", 1, Storage::kF32, kTenThousandth,
     "Standard deviation over tokens of the router entropy"},
    {"router.top_k_mass", "ratio", Unit::kNone, true, "[k/E, 1]", 1, Storage::kF32, kTenThousandth,
     "Mean probability mass of the selected experts"},
    {"router.weight_relative_norm", "ratio", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Norm of the router update since the last snapshot over the norm of the router weights"},
    {"router.weight_similarity", "ratio", Unit::kNone, true, "[-1/(E-1), 1]", 1, Storage::kF32, kTenThousandth,
     "Mean cosine between the rows of the router weights"},
    {"router.z", "nats_squared", Unit::kNone, true, "[0, inf)", 1, Storage::kF32, kTenThousandth,
     "Mean squared log-partition of the router"},
    {"tensor.absmax", "1", Unit::kTensor, true, "[0, inf)", 1, Storage::kF32, kAsStored,
     "Largest absolute value"},
    {"tensor.gain", "ratio", Unit::kTensor, true, "[0, inf)", 1, Storage::kF32, kAsStored,
     "rms over the rms of the layer input"},
    {"tensor.mean", "1", Unit::kTensor, true, "(-inf, inf)", 1, Storage::kF32, kAsStored,
     "Mean"},
    {"tensor.nonfinite", "count", Unit::kTensor, true, "[0, inf)", 1, Storage::kI64, kAsStored,
     "Non-finite elements"},
    {"tensor.peak_ratio", "ratio", Unit::kTensor, true, "[1, inf)", 1, Storage::kF32, kAsStored,
     "absmax / rms"},
    {"tensor.rms", "1", Unit::kTensor, true, "[0, inf)", 1, Storage::kF32, kAsStored,
     "Root mean square"},
    {"tensor.stable_rank", "1", Unit::kTensor, true, "[1, inf)", 1, Storage::kF32, kAsStored,
     "As sent, by the convention of the client"},
    {"tensor.std", "1", Unit::kTensor, true, "[0, inf)", 1, Storage::kF32, kAsStored,
     "Standard deviation"},
    {"tensor.update_ratio", "ratio", Unit::kTensor, true, "[0, inf)", 1, Storage::kF32, kAsStored,
     "rms of update/x over rms of param/x"},
    {"train.grad_norm.spike_score", "ratio", Unit::kNone, false, "(-inf, inf)", 1, Storage::kF32, kAsStored,
     "Distance of grad_norm from its median of 20 steps in units of six robust deviations; above 1 is a spike"},
    {"train.loss.spike_score", "ratio", Unit::kNone, false, "(-inf, inf)", 1, Storage::kF32, kAsStored,
     "Distance of loss from its median of 20 steps in units of six robust deviations; above 1 is a spike"},
    {"train.nonfinite", "count", Unit::kTensor, false, "[1, inf)", 1, Storage::kI64, kAsStored,
     "Non-finite elements found in the named input of this step"},
    {"train.spike_rate", "per_1000_steps", Unit::kNone, false, "[0, 1000]", 1, Storage::kF32, kAsStored,
     "Loss spikes per 1 000 steps over the last 1 000 steps"},
    {"train.step_seconds", "seconds", Unit::kNone, false, "(0, inf)", 1, Storage::kF32, kAsStored,
     "Wall time per optimizer step since the previous closed step, by the clocks of the ranks"},
    {"train.tokens_total", "per_step", Unit::kNone, false, "[0, inf)", 1, Storage::kI64, kAsStored,
     "Tokens of the step over all data shards"},
    {"train.update_per_lr", "1", Unit::kNone, false, "[0, inf)", 1, Storage::kF32, kAsStored,
     "update_rms / lr"},
    {"train.update_ratio", "ratio", Unit::kNone, false, "[0, inf)", 1, Storage::kF32, kAsStored,
     "update_rms / param_rms"},
};
// clang-format on

constexpr absl::string_view kEvalPrefix = "eval.";
constexpr absl::string_view kTrainPrefix = "train.";

bool IsScalarName(absl::string_view name) {
  return !name.empty() && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

}  // namespace

absl::Span<const IndicatorInfo> Indicators() { return kIndicators; }

const IndicatorInfo* FindIndicator(absl::string_view id) {
  const auto* found =
      std::lower_bound(std::begin(kIndicators), std::end(kIndicators), id,
                       [](const IndicatorInfo& info, absl::string_view x) { return info.id < x; });
  return found != std::end(kIndicators) && found->id == id ? found : nullptr;
}

Storage StorageOf(absl::string_view id) {
  absl::ConsumePrefix(&id, kEvalPrefix);
  const IndicatorInfo* info = FindIndicator(id);
  return info != nullptr ? info->storage : Storage::kF32;
}

double PrecisionOf(absl::string_view id) {
  absl::ConsumePrefix(&id, kEvalPrefix);
  const IndicatorInfo* info = FindIndicator(id);
  return info != nullptr ? info->precision : kAsStored;
}

bool IsKnownIndicator(absl::string_view id) {
  absl::ConsumePrefix(&id, kEvalPrefix);
  if (FindIndicator(id) != nullptr) return true;
  return absl::ConsumePrefix(&id, kTrainPrefix) && IsScalarName(id);
}

std::string MetricName(absl::string_view id) {
  std::string name = absl::StrCat("foreshock_", id);
  std::replace(name.begin(), name.end(), '.', '_');
  const IndicatorInfo* info = FindIndicator(absl::StripPrefix(id, kEvalPrefix));
  // "_count" is kept for histograms and summaries in Prometheus.
  if (info == nullptr || info->quantity == "1" || info->quantity == "count") return name;
  const std::string suffix = absl::StrCat("_", info->quantity);
  const bool says_it = absl::EndsWith(name, suffix) || absl::StrContains(name, suffix + "_");
  return says_it ? name : name + suffix;
}

absl::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return "none";
    case Unit::kHead:
      return "head";
    case Unit::kExpert:
      return "expert";
    case Unit::kProjection:
      return "projection";
    case Unit::kRank:
      return "rank";
    case Unit::kTensor:
      return "tensor";
  }
  return "none";
}

}  // namespace foreshock::model
