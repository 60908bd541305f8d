#include "daemon/indicators/finish.h"

#include "daemon/indicators/attention_logits.h"
#include "daemon/indicators/policy_mismatch.h"
#include "daemon/indicators/qk.h"
#include "daemon/indicators/router_gates.h"
#include "daemon/indicators/router_load.h"
#include "daemon/indicators/router_weights.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/scalars.h"
#include "daemon/indicators/tensor_stats.h"

namespace foreshock::indicators {

void Finish(const model::StepShards& merged, const v1::ModelShape& model, bool eval,
            History* history, model::ClosedStep* closed) {
  SampleWriter writer(eval, closed);
  const int64_t step = closed->row.step;
  History* const live_history = eval || closed->row.late ? nullptr : history;
  for (const model::UndefinedShard& undefined : merged.undefined()) {
    writer.AddUndefined(undefined.indicator(), undefined.reason(), undefined.count());
  }
  FinishFindings(merged, &writer, closed);
  FinishScalars(merged, closed->row, live_history, &writer);
  FinishLogits(merged, &writer);
  FinishQk(merged, &writer);
  FinishGates(merged, &writer);
  FinishLoad(merged, model, step, live_history, &writer);
  FinishRouterWeights(merged, &writer);
  FinishTensorStats(merged, &writer);
  FinishPolicy(merged, &writer);
  writer.Done();
}

}  // namespace foreshock::indicators
