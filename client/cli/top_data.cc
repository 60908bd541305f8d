#include "client/cli/top_data.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "client/cli/points.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

constexpr uint64_t kLossBuckets = 64;
constexpr uint64_t kLayerBuckets = 16;
constexpr uint32_t kAlertsRead = 1000;
// HTTP may be out of reach where gRPC is not, and the rest is not to wait for it.
constexpr absl::Duration kMetricsTimeout = absl::Seconds(2);

const TopRun* FindRun(const TopData& data, const std::string& name) {
  for (const TopRun& run : data.runs) {
    if (run.run.name() == name) return &run;
  }
  return nullptr;
}

bool SameSteps(const v1::Run& a, const v1::Run& b) {
  return a.has_last_step() == b.has_last_step() && a.last_step() == b.last_step() &&
         a.attempts_size() == b.attempts_size();
}

// The mean over a layer's units by the first step of each bucket; and of their newest values.
struct LayerCourse {
  struct Sum {
    double value = 0;
    uint64_t count = 0;
  };
  std::map<int64_t, Sum> means;
  std::map<int64_t, Sum> lasts;

  void Add(int64_t step, double mean, double last) {
    for (const auto& [sums, value] : {std::pair(&means, mean), std::pair(&lasts, last)}) {
      Sum& sum = (*sums)[step];
      sum.value += value;
      ++sum.count;
    }
  }
};

}  // namespace

std::optional<double> TrailingMedian(const std::vector<double>& means) {
  if (means.size() < 4) return std::nullopt;
  std::vector<double> older(means.begin(),
                            means.end() - static_cast<std::ptrdiff_t>((means.size() + 3) / 4));
  const auto middle = older.begin() + static_cast<std::ptrdiff_t>(older.size() / 2);
  std::nth_element(older.begin(), middle, older.end());
  return *middle;
}

void ApplyAlerts(const std::vector<v1::Alert>& alerts, const std::vector<Headline>& columns,
                 std::vector<TopLayer>* layers) {
  for (const v1::Alert& alert : alerts) {
    if (alert.state() != v1::ALERT_STATE_FIRING) continue;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (alert.indicator() != columns[c].indicator) continue;
      for (TopLayer& layer : *layers) {
        const bool here = alert.all_layers() ||
                          std::find(alert.layers().begin(), alert.layers().end(), layer.layer) !=
                              alert.layers().end();
        TopCell& cell = layer.cells[c];
        if (!here || Gravity(alert.severity()) <= Gravity(cell.severity)) continue;
        cell.severity = alert.severity();
        cell.alert_baseline =
            alert.has_baseline() ? std::optional<double>(alert.baseline()) : std::nullopt;
      }
    }
  }
}

absl::StatusOr<std::shared_ptr<const TopData>> TopFeed::Look(const TopWanted& wanted) {
  if (daemon_ == nullptr) daemon_ = std::make_unique<Connection>(settings_);
  absl::StatusOr<TopData> data = LookOnce(wanted);
  if (!data.ok()) {
    // A new connection has no back-off of its own behind it, and no counters go over a restart.
    daemon_.reset();
    before_.reset();
    return data.status();
  }
  before_ = std::make_shared<const TopData>(*std::move(data));
  return before_;
}

absl::StatusOr<TopData> TopFeed::LookOnce(const TopWanted& wanted) {
  TopData data;
  data.at = absl::Now();
  data.steady_at = base::SteadyNow();
  data.server = settings_.server;
  v1::QueryService::Stub& query = daemon_->query();
  FORESHOCK_RETURN_IF_ERROR(FromGrpc(query.GetStatus(daemon_->Context().get(), {}, &data.status)));
  v1::ListRunsResponse runs;
  FORESHOCK_RETURN_IF_ERROR(FromGrpc(query.ListRuns(daemon_->Context().get(), {}, &runs)));
  for (v1::Run& run : *runs.mutable_runs()) data.runs.push_back({.run = std::move(run)});
  v1::ListAlertsRequest which;
  which.set_limit(kAlertsRead);
  v1::ListAlertsResponse alerts;
  FORESHOCK_RETURN_IF_ERROR(FromGrpc(query.ListAlerts(daemon_->Context().get(), which, &alerts)));
  data.alerts.assign(alerts.alerts().begin(), alerts.alerts().end());
  const auto firing = CountFiring(alerts.alerts());
  for (TopRun& run : data.runs) {
    if (const auto counts = firing.find(run.run.name()); counts != firing.end()) {
      run.firing = counts->second;
    }
  }
  data.metrics = ReadDaemonMetrics(http_address_, settings_.credentials,
                                   std::min(settings_.timeout, kMetricsTimeout));
  Compare(&data);
  for (size_t i = 0; i < data.runs.size(); ++i) {
    TopRun& run = data.runs[i];
    const bool shown = wanted.runs.empty() ? i < kTopRunsFirst
                                           : std::find(wanted.runs.begin(), wanted.runs.end(),
                                                       run.run.name()) != wanted.runs.end();
    if (shown || run.run.name() == wanted.run) FORESHOCK_RETURN_IF_ERROR(ReadLosses(&run));
  }
  if (wanted.run.empty()) return data;
  data.run = wanted.run;
  const TopRun* chosen = FindRun(data, wanted.run);
  if (chosen == nullptr) return data;  // it was deleted; the view says so
  which.set_run(wanted.run);
  v1::ListAlertsResponse of_run;
  const absl::Status listed = FromGrpc(query.ListAlerts(daemon_->Context().get(), which, &of_run));
  if (absl::IsNotFound(listed)) return data;
  FORESHOCK_RETURN_IF_ERROR(listed);
  data.run_alerts.assign(of_run.alerts().begin(), of_run.alerts().end());
  FORESHOCK_RETURN_IF_ERROR(ReadLayers(*chosen, &data));
  return data;
}

void TopFeed::Compare(TopData* data) const {
  if (before_ == nullptr) return;
  const double seconds = absl::ToDoubleSeconds(data->steady_at - before_->steady_at);
  if (seconds <= 0) return;
  const uint64_t committed = data->status.reports_committed();
  if (committed >= before_->status.reports_committed()) {
    data->reports_per_s =
        static_cast<double>(committed - before_->status.reports_committed()) / seconds;
  }
  for (TopRun& run : data->runs) {
    const TopRun* before = FindRun(*before_, run.run.name());
    if (before == nullptr) continue;
    if (SameSteps(before->run, run.run)) {
      run.losses = before->losses;
      run.loss = before->loss;
    }
    const bool forward = run.run.has_last_step() && before->run.has_last_step() &&
                         run.run.attempts_size() == before->run.attempts_size() &&
                         run.run.last_step() >= before->run.last_step();
    if (forward) {
      run.steps_per_s =
          static_cast<double>(run.run.last_step() - before->run.last_step()) / seconds;
    }
  }
}

absl::Status TopFeed::ReadLosses(TopRun* run) {
  if (!run->run.has_last_step() || run->loss.has_value()) return absl::OkStatus();
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run(run->run.name());
  request.mutable_selector()->set_indicator("train.loss");
  request.mutable_selector()->set_unit(v1::UNIT_NONE);
  request.set_first_step(std::max<int64_t>(0, run->run.last_step() - kTopLossSteps + 1));
  request.set_buckets_max(kLossBuckets);
  const auto answers = ReadPoints(*daemon_, request);
  // A run that was deleted since it was listed has no points.
  if (absl::IsNotFound(answers.status())) return absl::OkStatus();
  FORESHOCK_RETURN_IF_ERROR(answers.status());
  for (const v1::QueryPointsResponse& answer : *answers) {
    for (const v1::Point& point : answer.points()) run->losses.push_back(point.value());
    for (const v1::Bucket& bucket : answer.buckets()) run->losses.push_back(bucket.mean());
    if (!answer.points().empty()) run->loss = answer.points().rbegin()->value();
    if (!answer.buckets().empty()) run->loss = answer.buckets().rbegin()->last();
  }
  return absl::OkStatus();
}

absl::Status TopFeed::ReadLayers(const TopRun& run, TopData* data) {
  const TopRun* before =
      before_ != nullptr && before_->run == data->run ? FindRun(*before_, data->run) : nullptr;
  if (before != nullptr && SameSteps(before->run, run.run)) {
    data->columns = before_->columns;
    data->layers = before_->layers;
    for (TopLayer& layer : data->layers) {
      for (TopCell& cell : layer.cells) {
        cell.severity.clear();
        cell.alert_baseline.reset();
      }
    }
    ApplyAlerts(data->run_alerts, data->columns, &data->layers);
    return absl::OkStatus();
  }
  std::map<int64_t, std::map<size_t, LayerCourse>> layers;  // by layer and column
  for (const Headline& headline : kHeadlines) {
    if (headline.pick == Pick::kWholeRun || !run.run.has_last_step()) continue;
    v1::QueryPointsRequest request;
    request.mutable_selector()->set_run(data->run);
    request.mutable_selector()->set_indicator(headline.indicator);
    request.set_first_step(std::max<int64_t>(0, run.run.last_step() - kTopLayerSteps + 1));
    request.set_buckets_max(kLayerBuckets);
    const auto answers = ReadPoints(*daemon_, request);
    if (absl::IsNotFound(answers.status())) return absl::OkStatus();  // deleted meanwhile
    FORESHOCK_RETURN_IF_ERROR(answers.status());
    if (answers->empty()) continue;
    const size_t column = data->columns.size();
    data->columns.push_back(headline);
    for (const v1::QueryPointsResponse& answer : *answers) {
      if (!answer.series().has_layer()) continue;
      LayerCourse& course = layers[answer.series().layer()][column];
      for (const v1::Point& point : answer.points()) {
        course.Add(point.step(), point.value(), point.value());
      }
      for (const v1::Bucket& bucket : answer.buckets()) {
        course.Add(bucket.first_step(), bucket.mean(), bucket.last());
      }
    }
  }
  for (const auto& [number, courses] : layers) {
    TopLayer layer{.layer = number, .cells = std::vector<TopCell>(data->columns.size())};
    for (const auto& [column, course] : courses) {
      const auto mean = [](const LayerCourse::Sum& sum) {
        return sum.value / static_cast<double>(sum.count);
      };
      std::vector<double> means;
      for (const auto& [step, sum] : course.means) means.push_back(mean(sum));
      layer.cells[column].median = TrailingMedian(means);
      if (!course.lasts.empty()) layer.cells[column].value = mean(course.lasts.rbegin()->second);
    }
    data->layers.push_back(std::move(layer));
  }
  ApplyAlerts(data->run_alerts, data->columns, &data->layers);
  return absl::OkStatus();
}

}  // namespace foreshock::cli
