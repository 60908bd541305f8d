#include "tests/fault/store_batches.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::fault {
namespace {

constexpr int kHeads = 12;
constexpr int64_t kSeriesEvery = 10;
constexpr int64_t kOpenSteps = 3;

model::SeriesKey HeadSeries(int head) {
  return {"attn.delta2.entropy", 0, model::Unit::kHead, head, ""};
}
model::SeriesKey LateSeries(int64_t k) {
  return {absl::StrCat("train.s", k), model::kNoLayer, model::Unit::kNone, 0, ""};
}

// Values are the steps, small integers that every storage type holds exactly.
double ValueOf(int64_t step) { return static_cast<double>(step); }

absl::Status Wrong(absl::string_view what, int64_t found, int64_t expected) {
  return absl::InternalError(absl::StrCat(what, " is ", found, ", not ", expected));
}

// Points of the series are exactly first..last, in order and with their values.
absl::Status CheckPoints(const store::Store& store, const model::SeriesKey& series, int64_t first,
                         int64_t last) {
  int64_t expected = first;
  absl::Status status;
  FORESHOCK_RETURN_IF_ERROR(
      store.Points(kNumberedRun, {series}, {}, [&](size_t, const model::Point& point) {
        if (point.step != expected || point.value != ValueOf(expected)) {
          status = Wrong(absl::StrCat("a point of ", series.indicator, "/", series.unit_id),
                         point.step, expected);
        }
        ++expected;
        return status.ok();
      }));
  FORESHOCK_RETURN_IF_ERROR(status);
  if (expected != last + 1) return Wrong("the end of a series", expected - 1, last);
  return absl::OkStatus();
}

absl::Status Check(const store::Store& store, int64_t batches) {
  if (batches == 0) {
    FORESHOCK_ASSIGN_OR_RETURN(const auto runs, store.Runs());
    if (!runs.empty()) return Wrong("the number of runs", runs.size(), 0);
    return absl::OkStatus();
  }
  FORESHOCK_ASSIGN_OR_RETURN(const auto attempts, store.Attempts(kNumberedRun));
  if (attempts.size() != 1) return Wrong("the number of attempts", attempts.size(), 1);
  if (attempts[0].last_step() != batches) {
    return Wrong("the attempt's last step", attempts[0].last_step(), batches);
  }
  int64_t step = 0;
  bool in_order = true;
  FORESHOCK_RETURN_IF_ERROR(store.Steps(kNumberedRun, {}, [&](const model::StepRow& row) {
    in_order = row.step == ++step;
    return in_order;
  }));
  if (!in_order || step != batches) return Wrong("the last step row", step, batches);

  for (int head = 0; head < kHeads; ++head) {
    FORESHOCK_RETURN_IF_ERROR(CheckPoints(store, HeadSeries(head), 1, batches));
  }
  for (int64_t k = 1; k * kSeriesEvery <= batches; ++k) {
    FORESHOCK_RETURN_IF_ERROR(CheckPoints(store, LateSeries(k), k * kSeriesEvery, batches));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const auto series, store.Series(kNumberedRun, {}));
  const int64_t series_expected = kHeads + batches / kSeriesEvery;
  if (static_cast<int64_t>(series.size()) != series_expected) {
    return Wrong("the number of series", series.size(), series_expected);
  }

  std::vector<int64_t> open;
  FORESHOCK_RETURN_IF_ERROR(
      store.OpenReports(kNumberedRun, 1, [&open](const model::ShardReport& report) {
        open.push_back(report.step());
        return true;
      }));
  std::vector<int64_t> open_expected;
  for (int64_t n = std::max<int64_t>(1, batches - kOpenSteps + 1); n <= batches; ++n) {
    open_expected.push_back(n);
  }
  if (open != open_expected)
    return Wrong("the number of open reports", open.size(), open_expected.size());

  FORESHOCK_ASSIGN_OR_RETURN(const auto alerts, store.Alerts(kNumberedRun));
  if (static_cast<int64_t>(alerts.size()) != batches) {
    return Wrong("the number of alerts", alerts.size(), batches);
  }
  FORESHOCK_ASSIGN_OR_RETURN(const auto events, store.Events(kNumberedRun));
  if (static_cast<int64_t>(events.size()) != batches) {
    return Wrong("the number of events", events.size(), batches);
  }
  return absl::OkStatus();
}

}  // namespace

store::StoreBatch NumberedBatch(int64_t n, size_t ballast_bytes) {
  store::StoreBatch batch;
  batch.runs.emplace_back().set_name(kNumberedRun);
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_first_step(1);
  attempt.set_last_step(n);
  batch.attempts.push_back({kNumberedRun, attempt});
  model::RankRow rank;
  rank.set_client_instance("child");
  rank.set_committed_seq(static_cast<uint64_t>(n));
  batch.ranks.push_back({kNumberedRun, 1, rank});

  model::ShardReport report;
  report.set_step(n);
  report.set_seq(static_cast<uint64_t>(n));
  report.set_client_instance("child");
  batch.reports.push_back({kNumberedRun, 1, report});
  batch.settled_steps.push_back({kNumberedRun, 1, n - kOpenSteps});

  model::ClosedStep step;
  step.run = kNumberedRun;
  step.row.attempt = 1;
  step.row.step = n;
  for (int head = 0; head < kHeads; ++head) {
    step.samples.push_back({HeadSeries(head), ValueOf(n), 0});
  }
  for (int64_t k = 1; k * kSeriesEvery <= n; ++k) {
    step.samples.push_back({LateSeries(k), ValueOf(n), 0});
  }
  batch.steps.push_back(std::move(step));

  model::AlertRow alert;
  alert.mutable_alert()->set_id(absl::StrCat(n));
  uint64_t noise = static_cast<uint64_t>(n);
  for (size_t i = 0; i < ballast_bytes; ++i) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    alert.mutable_state()->push_back(static_cast<char>(noise >> 56));
  }
  batch.alerts.push_back({kNumberedRun, alert});

  model::EventRow event;
  event.set_attempt(1);
  event.mutable_event()->set_step(n);
  event.mutable_event()->set_kind(v1::EVENT_KIND_NOTE);
  batch.events.push_back({kNumberedRun, event});
  return batch;
}

int64_t LastBatch(const store::Store& store) {
  const auto runs = store.Runs();
  if (!runs.ok()) return -1;
  if (runs->empty()) return 0;
  const auto ranks = store.Ranks(kNumberedRun, 1);
  if (!ranks.ok()) return -1;
  return ranks->empty() ? 0 : static_cast<int64_t>(ranks->front().committed_seq());
}

std::string CheckHoldsExactly(const store::Store& store, int64_t batches) {
  const absl::Status status = Check(store, batches);
  return status.ok() ? "" : std::string(status.message());
}

}  // namespace foreshock::fault
