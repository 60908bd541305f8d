#include "daemon/exporter/families.h"

#include <cmath>

namespace foreshock::exporter::internal {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric* Families::Add(absl::string_view name, absl::string_view help, MetricType type,
                            const Labels& labels) {
  if (series_ >= budget_) {
    ++left_out_;
    return nullptr;
  }
  ++series_;
  MetricFamily& family = families_[std::string(name)];
  if (family.name.empty()) {
    family.name = std::string(name);
    family.help = std::string(help);
    family.type = type;
  }
  ClientMetric& metric = family.metric.emplace_back();
  metric.label.reserve(labels.size());
  for (const auto& [key, value] : labels) metric.label.push_back({std::string(key), value});
  return &metric;
}

void Families::Gauge(absl::string_view name, absl::string_view help, const Labels& labels,
                     double value) {
  if (!std::isfinite(value)) {
    ++left_out_;
    return;
  }
  if (auto* metric = Add(name, help, MetricType::Gauge, labels)) metric->gauge.value = value;
}

void Families::Counter(absl::string_view name, absl::string_view help, const Labels& labels,
                       double value) {
  if (auto* metric = Add(name, help, MetricType::Counter, labels)) {
    metric->counter.value = value;
  }
}

void Families::Histogram(absl::string_view name, absl::string_view help,
                         const LatencyHistogram::Values& values) {
  ClientMetric* metric = Add(name, help, MetricType::Histogram, {});
  if (metric == nullptr) return;
  uint64_t cumulative = 0;
  for (size_t i = 0; i < LatencyHistogram::kUpperBounds_s.size(); ++i) {
    cumulative += values.counts[i];
    metric->histogram.bucket.push_back({cumulative, LatencyHistogram::kUpperBounds_s[i]});
  }
  metric->histogram.sample_count = cumulative + values.counts.back();
  metric->histogram.sample_sum = values.sum_s;
}

std::vector<MetricFamily> Families::Take() {
  std::vector<MetricFamily> taken;
  taken.reserve(families_.size());
  for (auto& [name, family] : families_) taken.push_back(std::move(family));
  families_.clear();
  return taken;
}

}  // namespace foreshock::exporter::internal
