// The page /metrics: Prometheus text format 0.0.4, bounded in series whatever the model's size.
//
//   FORESHOCK_ASSIGN_OR_RETURN(auto exporter, Exporter::Create(options.exporter, {.snapshot =
//   ...})); http.Handle("GET", "/metrics", [&](const HttpRequest&) {
//     return HttpResponse{.content_type = Exporter::kContentType, .body = exporter->Render()};
//   });
//
// docs/metrics.md lists every metric with its labels.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/exporter/process_stats.h"
#include "daemon/exporter/self_stats.h"
#include "daemon/exporter/snapshot.h"

namespace foreshock::exporter {

struct ExporterOptions {
  // Series of runs on one page, at most 100 000. What does not fit is left out and counted, the
  // least telling first: single units, then percentiles, then layers, then whole runs.
  size_t series_max = 20'000;
};

// What the page shows of one metric, for who does not scrape it. Value type.
struct ExportedSample {
  std::string name{};  // the family's; of a histogram with _bucket, _sum or _count
  std::vector<std::pair<std::string, std::string>> labels{};
  double value = 0;  // finite
};
struct ExportedFamily {
  enum class Type { kCounter, kGauge, kHistogram };
  std::string name{};
  std::string help{};
  Type type = Type::kGauge;
  std::vector<ExportedSample> samples{};
};

// Thread-safe; a page is made from one snapshot, without a lock.
class Exporter {
 public:
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";
  static constexpr size_t kSeriesLimit = 100'000;

  struct Deps {
    std::function<std::shared_ptr<const Snapshot>()> snapshot;  // never null
    std::function<SelfStats()> self;
    std::function<ProcessStats()> process = ReadProcessStats;
    const base::Clock* clock = nullptr;  // hides runs whose time is over
  };

  // InvalidArgument when series_max is over the limit.
  static absl::StatusOr<std::unique_ptr<Exporter>> Create(ExporterOptions options, Deps deps);

  // About 5 us a series.
  std::string Render() const;
  // The same page as values.
  std::vector<ExportedFamily> Read() const;

 private:
  Exporter(ExporterOptions options, Deps deps);

  const ExporterOptions options_;
  const Deps deps_;
};

}  // namespace foreshock::exporter
