#include "daemon/exporter/layer_values.h"

#include <algorithm>
#include <cmath>

#include "daemon/base/check.h"
#include "daemon/base/order_statistics.h"

namespace foreshock::exporter::internal {
namespace {

struct Sides {
  absl::string_view indicator;
  bool top;
  bool bottom;
};

// Where one unit going wrong matters although the layer's mean looks well.
constexpr Sides kSides[] = {
    {"attn.delta2.entropy_ratio_l1", false, true},
    {"attn.logits.entropy", false, true},
    {"attn.logits.max", true, false},
    {"load.share", true, true},
    {"tensor.absmax", true, false},
    {"tensor.nonfinite", true, false},
    {"tensor.peak_ratio", true, false},
    {"tensor.update_ratio", true, false},
    {"train.nonfinite", true, false},
};

}  // namespace

LayerValues Reduce(absl::Span<const model::Sample> samples) {
  FORESHOCK_CHECK(!samples.empty());
  std::vector<double> values;
  values.reserve(samples.size());
  for (const model::Sample& sample : samples) values.push_back(sample.value);
  // The mean of halves cannot overflow where the sum of the values would.
  const double n = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += value / n;
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  LayerValues reduced{.layer = samples[0].series.layer,
                      .unit = samples[0].series.unit,
                      .units = static_cast<uint32_t>(values.size()),
                      .min = *min,
                      .p10 = 0,
                      .mean = std::clamp(mean, *min, *max),
                      .max = *max};
  reduced.p10 = base::Percentile10(std::move(values));
  return reduced;
}

void AppendOffenders(absl::Span<const model::Sample> samples, size_t k,
                     std::vector<Offender>* offenders) {
  FORESHOCK_CHECK(!samples.empty());
  const model::SeriesKey& first = samples[0].series;
  const auto* sides = std::find_if(std::begin(kSides), std::end(kSides),
                                   [&](const Sides& s) { return s.indicator == first.indicator; });
  if (sides == std::end(kSides) || first.unit == model::Unit::kNone) return;
  for (const bool top : {true, false}) {
    if (!(top ? sides->top : sides->bottom)) continue;
    std::vector<const model::Sample*> order;
    order.reserve(samples.size());
    for (const model::Sample& sample : samples) order.push_back(&sample);
    const size_t shown = std::min(k, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown),
                      order.end(), [top](const model::Sample* a, const model::Sample* b) {
                        if (a->value != b->value) {
                          return top ? a->value > b->value : a->value < b->value;
                        }
                        return a->series < b->series;
                      });
    for (size_t i = 0; i < shown; ++i) {
      offenders->push_back({.layer = first.layer,
                            .unit = first.unit,
                            .top = top,
                            .unit_id = order[i]->series.unit_id,
                            .unit_name = order[i]->series.unit_name,
                            .value = order[i]->value});
    }
  }
}

}  // namespace foreshock::exporter::internal
