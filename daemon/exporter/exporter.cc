#include "daemon/exporter/exporter.h"

#include <locale>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/exporter/families.h"
#include "daemon/exporter/run_metrics.h"
#include "daemon/exporter/self_metrics.h"
#include "prometheus/collectable.h"
#include "prometheus/text_serializer.h"

namespace foreshock::exporter {
namespace {

using internal::Families;

// One page's worth of families. prometheus-cpp's own registry has no expiry and no limit.
class Page final : public prometheus::Collectable {
 public:
  Page(const ExporterOptions& options, const Exporter::Deps& deps)
      : options_(options), deps_(deps) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::shared_ptr<const Snapshot> snapshot = deps_.snapshot();
    const absl::Time now = deps_.clock->Steady();
    std::vector<std::shared_ptr<const RunSnapshot>> shown;
    for (const auto& run : snapshot->runs) {
      if (run->leaves_at > now) shown.push_back(run);
    }
    Families families;
    internal::AddSelf(deps_.self(), &families);
    internal::AddProcess(deps_.process(), &families);
    internal::AddUndefined(snapshot->undefined, &families);
    families.Gauge("foreshock_runs", "Runs on this page", {}, static_cast<double>(shown.size()));
    families.Gauge("foreshock_export_series_max", "Series of runs that a page may have", {},
                   static_cast<double>(options_.series_max));
    const size_t own = families.series();
    families.SetBudget(own + options_.series_max);
    internal::AddRuns(shown, &families);
    const size_t of_runs = families.series() - own;
    const size_t left_out = families.left_out();
    families.SetBudget(static_cast<size_t>(-1));
    families.Gauge("foreshock_export_series", "Series of runs on this page", {},
                   static_cast<double>(of_runs));
    families.Gauge("foreshock_export_series_left_out",
                   "Series of runs that did not fit on this page or had no finite value", {},
                   static_cast<double>(left_out));
    return families.Take();
  }

 private:
  const ExporterOptions& options_;
  const Exporter::Deps& deps_;
};

void AppendHistogram(const std::string& name, const prometheus::ClientMetric& metric,
                     const ExportedSample& labelled, std::vector<ExportedSample>* samples) {
  const auto add = [&](const char* suffix, double value) {
    ExportedSample sample = labelled;
    sample.name = absl::StrCat(name, suffix);
    sample.value = value;
    samples->push_back(std::move(sample));
    return &samples->back();
  };
  for (const auto& bucket : metric.histogram.bucket) {
    add("_bucket", static_cast<double>(bucket.cumulative_count))
        ->labels.emplace_back("le", absl::StrCat(bucket.upper_bound));
  }
  const auto count = static_cast<double>(metric.histogram.sample_count);
  add("_bucket", count)->labels.emplace_back("le", "+Inf");
  add("_sum", metric.histogram.sample_sum);
  add("_count", count);
}

ExportedFamily ToExported(const prometheus::MetricFamily& family) {
  using Type = ExportedFamily::Type;
  ExportedFamily exported{.name = family.name, .help = family.help};
  for (const prometheus::ClientMetric& metric : family.metric) {
    ExportedSample sample{.name = family.name};
    for (const auto& label : metric.label) sample.labels.emplace_back(label.name, label.value);
    if (family.type == prometheus::MetricType::Histogram) {
      exported.type = Type::kHistogram;
      AppendHistogram(family.name, metric, sample, &exported.samples);
      continue;
    }
    const bool counter = family.type == prometheus::MetricType::Counter;
    exported.type = counter ? Type::kCounter : Type::kGauge;
    sample.value = counter ? metric.counter.value : metric.gauge.value;
    exported.samples.push_back(std::move(sample));
  }
  return exported;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Create(ExporterOptions options, Deps deps) {
  FORESHOCK_CHECK(deps.snapshot && deps.self && deps.process && deps.clock != nullptr);
  if (options.series_max > kSeriesLimit) {
    return absl::InvalidArgumentError(absl::StrCat("exporter: series_max is ", options.series_max,
                                                   ", at most ", kSeriesLimit,
                                                   " are allowed: a scrape must stay quick"));
  }
  return std::unique_ptr<Exporter>(new Exporter(options, std::move(deps)));
}

Exporter::Exporter(ExporterOptions options, Deps deps)
    : options_(options), deps_(std::move(deps)) {}

std::string Exporter::Render() const {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  prometheus::TextSerializer().Serialize(out, Page(options_, deps_).Collect());
  return std::move(out).str();
}

std::vector<ExportedFamily> Exporter::Read() const {
  std::vector<ExportedFamily> families;
  for (const prometheus::MetricFamily& family : Page(options_, deps_).Collect()) {
    families.push_back(ToExported(family));
  }
  return families;
}

}  // namespace foreshock::exporter
