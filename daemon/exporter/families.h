// Collects metric families by name, up to a number of series. Internal to exporter/; the only
// header that names prometheus-cpp's types.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/exporter/latency_histogram.h"
#include "prometheus/metric_family.h"

namespace foreshock::exporter::internal {

using Label = std::pair<absl::string_view, std::string>;
using Labels = std::vector<Label>;

// Thread-compatible. Families come out sorted by name, series in the order of adding.
class Families {
 public:
  // At most this many series from now on.
  void SetBudget(size_t series) { budget_ = series; }

  // A value that is not finite is left out and counted, as is what is over the budget.
  void Gauge(absl::string_view name, absl::string_view help, const Labels& labels, double value);
  void Counter(absl::string_view name, absl::string_view help, const Labels& labels, double value);
  // Counts as one series of the budget.
  void Histogram(absl::string_view name, absl::string_view help,
                 const LatencyHistogram::Values& values);

  size_t series() const { return series_; }
  size_t left_out() const { return left_out_; }

  std::vector<prometheus::MetricFamily> Take();

 private:
  prometheus::ClientMetric* Add(absl::string_view name, absl::string_view help,
                                prometheus::MetricType type, const Labels& labels);

  std::map<std::string, prometheus::MetricFamily, std::less<>> families_;
  size_t budget_ = static_cast<size_t>(-1);
  size_t series_ = 0;
  size_t left_out_ = 0;
};

}  // namespace foreshock::exporter::internal
