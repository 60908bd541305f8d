#include "daemon/indicators/summarise.h"

#include "daemon/indicators/attention_logits.h"
#include "daemon/indicators/coactivation.h"
#include "daemon/indicators/policy_mismatch.h"
#include "daemon/indicators/qk.h"
#include "daemon/indicators/router_gates.h"
#include "daemon/indicators/router_load.h"
#include "daemon/indicators/router_weights.h"
#include "daemon/indicators/scalars.h"
#include "daemon/indicators/tensor_stats.h"

namespace foreshock::indicators {

absl::Status Summarise(const v1::Summary& summary, const SummariseContext& context,
                       Snapshots* snapshots, model::StepShards* out) {
  switch (summary.payload_case()) {
    case v1::Summary::kScalars:
      return SummariseScalars(summary.scalars(), context, out);
    case v1::Summary::kAttentionLogits:
      return SummariseLogits(summary.attention_logits(), context, out);
    case v1::Summary::kQkFactors:
      return SummariseQkFactors(summary.qk_factors(), context, snapshots, out);
    case v1::Summary::kQkGram:
      return SummariseQkGram(summary.qk_gram(), context, out);
    case v1::Summary::kRouterGates:
      return SummariseGates(summary.router_gates(), context, out);
    case v1::Summary::kRouterLoad:
      return SummariseLoad(summary.router_load(), context, out);
    case v1::Summary::kRouterWeights:
      return SummariseRouterWeights(summary.router_weights(), context, snapshots, out);
    case v1::Summary::kRouterCoactivation:
      return SummariseCoactivation(summary.router_coactivation(), context, out);
    case v1::Summary::kTensorStats:
      return SummariseTensorStats(summary.tensor_stats(), context, out);
    case v1::Summary::kPolicyMismatch:
      return SummarisePolicy(summary.policy_mismatch(), context, out);
    case v1::Summary::kEvent:  // an event has no statistics
    case v1::Summary::PAYLOAD_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace foreshock::indicators
