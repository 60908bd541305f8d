#include "daemon/indicators/sample_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace foreshock::indicators {
namespace {

std::string IdOf(bool eval, absl::string_view id) {
  return eval ? absl::StrCat("eval.", id) : std::string(id);
}

}  // namespace

SampleWriter::SampleWriter(bool eval, model::ClosedStep* closed)
    : eval_(eval),
      step_flags_((eval ? model::kFlagEval : 0u) |
                  (closed->row.partial ? model::kFlagPartial : 0u) |
                  (closed->row.late ? model::kFlagLate : 0u)),
      closed_(closed) {}

void SampleWriter::Push(absl::string_view id, model::SeriesKey key, double value, uint32_t flags) {
  if (!std::isfinite(value)) {
    AddUndefined(id, "out_of_range");
    return;
  }
  key.indicator = IdOf(eval_, id);
  closed_->samples.push_back({std::move(key), value, flags | step_flags_});
}

void SampleWriter::Add(absl::string_view id, int32_t layer, double value, uint32_t flags) {
  Push(id,
       {.indicator = {}, .layer = layer, .unit = model::Unit::kNone, .unit_id = 0, .unit_name = {}},
       value, flags);
}

void SampleWriter::AddUnit(absl::string_view id, int32_t layer, model::Unit unit, int64_t unit_id,
                           double value, uint32_t flags) {
  Push(id, {.indicator = {}, .layer = layer, .unit = unit, .unit_id = unit_id, .unit_name = {}},
       value, flags);
}

void SampleWriter::AddTensor(absl::string_view id, int32_t layer, absl::string_view name,
                             double value, uint32_t flags) {
  Push(id,
       {.indicator = {},
        .layer = layer,
        .unit = model::Unit::kTensor,
        .unit_id = 0,
        .unit_name = std::string(name)},
       value, flags);
}

void SampleWriter::AddUndefined(absl::string_view id, absl::string_view reason, uint64_t count) {
  std::string indicator = IdOf(eval_, id);
  for (model::Undefined& known : closed_->undefined) {
    if (known.indicator == indicator && known.reason == reason) {
      known.count += count;
      return;
    }
  }
  closed_->undefined.push_back({std::move(indicator), std::string(reason), count});
}

void SampleWriter::Done() {
  std::vector<model::Sample>& samples = closed_->samples;
  std::stable_sort(
      samples.begin(), samples.end(),
      [](const model::Sample& a, const model::Sample& b) { return a.series < b.series; });
  samples.erase(std::unique(samples.begin(), samples.end(),
                            [](const model::Sample& a, const model::Sample& b) {
                              return a.series == b.series;
                            }),
                samples.end());
}

}  // namespace foreshock::indicators
