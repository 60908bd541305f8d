// A run as its attempts and closed steps, in the order in which the daemon judged or would have
// judged them.
//
//   RunRecorder recorder(...);                                        // a StepSink
//   FORESHOCK_RETURN_IF_ERROR(ReadCaptureSteps("run.fscap", {}, &recorder));
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/model/step.h"
#include "daemon/rules/evaluator.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock {

class StepSink {
 public:
  virtual ~StepSink() = default;
  // Steps that follow belong to this attempt. `model` is that of the run.
  virtual void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                            const AttemptStart& attempt) = 0;
  // Steps of an attempt in increasing order.
  virtual void OnStep(const ClosedStep& step) = 0;
};

// How far a reader has come, of how much (bytes or steps; 0: not known), and the newest step.
using StepProgress = std::function<void(uint64_t done, uint64_t total, int64_t step)>;

}  // namespace foreshock
