#include "daemon/model/metric_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/model/catalogue.h"

namespace foreshock::model {
namespace {

struct Scalar {
  absl::string_view name;
  absl::string_view help;
};

// The canonical scalar names, as sent by the training process.
constexpr Scalar kScalars[] = {
    {"aux_loss", "Auxiliary (load-balance) loss, as sent"},
    {"clip_fraction", "Share of clipped policy ratios, as sent"},
    {"embed_grad_ratio", "Gradient norm of the embedding over the global one, as sent"},
    {"eps_ratio", "Optimizer epsilon over rms of the gradient, as sent"},
    {"grad_norm", "Gradient norm before clipping, as sent"},
    {"grad_norm_k", "Gradient norm of W_K, as sent"},
    {"grad_norm_q", "Gradient norm of W_Q, as sent"},
    {"grad_norm_router", "Gradient norm of the routers, as sent"},
    {"log_z", "Mean log-partition of the output head, as sent"},
    {"loss", "Training loss, as sent"},
    {"loss_scale", "Loss scale, as sent"},
    {"lr", "Learning rate, as sent"},
    {"param_rms", "Root mean square of the parameters, as sent"},
    {"policy_entropy", "Entropy of the policy, as sent"},
    {"reward_mean", "Mean reward, as sent"},
    {"reward_std", "Standard deviation of the reward, as sent"},
    {"rms_t", "Root mean square of gradient over second moment, as sent"},
    {"second_moment_ratio", "Mean second moment over mean squared gradient, as sent"},
    {"staleness", "Optimizer steps between rollout and update, as sent"},
    {"tokens", "Tokens, as sent"},
    {"update_rms", "Root mean square of the update, as sent"},
};

}  // namespace

MetricInfo MetricOf(absl::string_view indicator) {
  absl::string_view id = indicator;
  const bool eval = absl::ConsumePrefix(&id, "eval.");
  const absl::string_view prefix = eval ? "On evaluation data: " : "";
  if (const IndicatorInfo* info = FindIndicator(id); info != nullptr) {
    return {MetricName(indicator), absl::StrCat(prefix, info->help), ""};
  }
  absl::string_view name = id;
  absl::ConsumePrefix(&name, "train.");
  const auto* scalar = std::find_if(std::begin(kScalars), std::end(kScalars),
                                    [&](const Scalar& s) { return s.name == name; });
  if (scalar != std::end(kScalars)) {
    return {MetricName(indicator), absl::StrCat(prefix, scalar->help), ""};
  }
  return {eval ? "foreshock_eval_train_scalar" : "foreshock_train_scalar",
          absl::StrCat(prefix, "A scalar of the label's name, as sent"), std::string(name)};
}

}  // namespace foreshock::model
