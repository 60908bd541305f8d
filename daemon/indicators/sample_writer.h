// Collects the samples of one closed step: puts the "eval." prefix and the step's flags on them and
// keeps non-finite values out.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/model/step.h"

namespace foreshock::indicators {

class SampleWriter {
 public:
  // `closed` must outlive the writer; its row says which flags every sample gets.
  SampleWriter(bool eval, model::ClosedStep* closed);

  void Add(absl::string_view id, int32_t layer, double value, uint32_t flags = 0);
  void AddUnit(absl::string_view id, int32_t layer, model::Unit unit, int64_t unit_id, double value,
               uint32_t flags = 0);
  void AddTensor(absl::string_view id, int32_t layer, absl::string_view name, double value,
                 uint32_t flags = 0);
  void AddUndefined(absl::string_view id, absl::string_view reason, uint64_t count = 1);

  // Sorts by series and drops repeated series, the first of them staying. Call once, at the end.
  void Done();

  bool eval() const { return eval_; }

 private:
  void Push(absl::string_view id, model::SeriesKey key, double value, uint32_t flags);

  const bool eval_;
  const uint32_t step_flags_;
  model::ClosedStep* const closed_;
};

}  // namespace foreshock::indicators
