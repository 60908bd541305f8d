#include "client/cli/live_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/alert_block.h"
#include "client/cli/format.h"
#include "client/cli/headlines.h"
#include "client/cli/points.h"
#include "daemon/base/clock.h"

namespace foreshock::cli {
namespace {

constexpr absl::Duration kPollEvery = absl::Milliseconds(200);

std::string RightAligned(const std::string& text, int width) {
  return PadLeft(text, std::max(static_cast<size_t>(width), DisplayWidth(text)));
}

}  // namespace

LiveView::LiveView(Connection& daemon, Options options, Progress& out)
    : daemon_(daemon),
      options_(std::move(options)),
      out_(out),
      terminal_(stdout),
      next_row_(options_.every_steps),
      thread_([this] { Run(); }) {}

LiveView::~LiveView() {
  if (thread_.joinable()) Finish(-1, absl::ZeroDuration());
}

void LiveView::Finish(int64_t last_step, absl::Duration timeout) {
  const absl::Time deadline = base::SteadyNow() + timeout;
  {
    base::MutexLock lock(&mutex_);
    while (newest_step_.value_or(-1) < last_step && base::SteadyNow() < deadline) {
      changed_.WaitFor(&mutex_, deadline - base::SteadyNow());
    }
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  // What came after the thread's last look.
  Poll();
  for (auto& [id, seen] : alerts_) {
    (void)id;
    PrintAlertsUpTo(seen.alert.firing_step());
  }
}

void LiveView::Run() {
  while (true) {
    const std::optional<int64_t> newest = Poll();
    base::MutexLock lock(&mutex_);
    newest_step_ = newest;
    changed_.NotifyAll();
    if (stop_) return;
    changed_.WaitFor(&mutex_, kPollEvery);
    if (stop_) return;
  }
}

std::optional<int64_t> LiveView::Poll() {
  v1::GetRunRequest request;
  request.set_run(options_.run);
  v1::GetRunResponse response;
  const auto context = daemon_.Context();
  // The run is not there before its first Hello is committed; a daemon that went away is reported
  // by the replay itself.
  if (!daemon_.query().GetRun(context.get(), request, &response).ok()) return std::nullopt;
  const v1::Run& run = response.run();
  if (!run.has_last_step()) return std::nullopt;
  const uint32_t attempt = run.attempts_size() > 0 ? run.attempts().rbegin()->number() : 1;
  if (attempt_ != 0 && attempt != attempt_ && run.attempts().rbegin()->has_first_step()) {
    const int64_t first = run.attempts().rbegin()->first_step();
    out_.Print(terminal_.Paint(
        Style::kCyan, absl::StrCat("  attempt ", attempt, " begins at step ", first, "\n")));
    next_row_ = (first / options_.every_steps + 1) * options_.every_steps;
    attempt_ = attempt;
  }
  if (attempt_ == 0) attempt_ = attempt;
  TakeAlerts();
  while (next_row_ <= run.last_step()) {
    PrintAlertsUpTo(next_row_ - 1);
    PrintRow(next_row_);
    next_row_ += options_.every_steps;
  }
  PrintAlertsUpTo(run.last_step());
  return run.last_step();
}

void LiveView::TakeAlerts() {
  v1::ListAlertsRequest request;
  request.set_run(options_.run);
  v1::ListAlertsResponse response;
  const auto context = daemon_.Context();
  if (!daemon_.query().ListAlerts(context.get(), request, &response).ok()) return;
  for (v1::Alert& alert : *response.mutable_alerts()) {
    alerts_[alert.id()].alert = std::move(alert);
  }
}

void LiveView::PrintAlertsUpTo(int64_t step) {
  std::vector<SeenAlert*> due;
  for (auto& [id, seen] : alerts_) {
    const v1::Alert& alert = seen.alert;
    const bool fired = alert.has_firing_step() && alert.firing_step() <= step;
    const bool news = !seen.fired_shown || seen.severity_shown != alert.severity() ||
                      (alert.has_resolved_step() && !seen.resolved_shown);
    if (fired && news) due.push_back(&seen);
  }
  std::sort(due.begin(), due.end(), [](const SeenAlert* a, const SeenAlert* b) {
    return a->alert.firing_step() < b->alert.firing_step();
  });
  for (SeenAlert* seen : due) {
    const v1::Alert& alert = seen->alert;
    if (!seen->fired_shown && alert.severity() != "info") {
      out_.Print(absl::StrCat("\n", AlertBlock(alert, terminal_), "\n"));
    } else {
      out_.Print(StepLine(*seen));
    }
    seen->fired_shown = true;
    seen->severity_shown = alert.severity();
    if (alert.has_resolved_step()) seen->resolved_shown = true;
  }
}

// In the columns of the table: the step, then what changed.
std::string LiveView::StepLine(const SeenAlert& seen) const {
  const v1::Alert& alert = seen.alert;
  const bool over = alert.has_resolved_step();
  const int64_t step = over ? alert.resolved_step() : alert.firing_step();
  // At which step a severity rose the daemon does not say; the line has the step of the start.
  const bool raised = !over && seen.fired_shown;
  return absl::StrCat(
      RightAligned(absl::StrCat(step), 8), "  ",
      terminal_.Paint(
          Style::kDim,
          absl::StrCat("· ", raised ? "now " : "", alert.severity(), ": ", Printable(alert.rule()),
                       ", ", Printable(FormatWhere(alert)),
                       over ? absl::StrCat(", over; fired at step ", alert.firing_step()) : "")),
      "\n");
}

void LiveView::PrintHeader() {
  for (size_t c = 0; c < std::size(kHeadlines); ++c) {
    v1::ListSeriesRequest request;
    request.mutable_selector()->set_run(options_.run);
    request.mutable_selector()->set_indicator(kHeadlines[c].indicator);
    request.set_limit(1);
    v1::ListSeriesResponse response;
    const auto context = daemon_.Context();
    if (daemon_.query().ListSeries(context.get(), request, &response).ok() &&
        response.series_size() > 0) {
      columns_.push_back(c);
    }
  }
  std::string line = RightAligned("step", 8);
  for (const size_t c : columns_) {
    absl::StrAppend(&line, "  ", RightAligned(kHeadlines[c].title, kHeadlines[c].width));
  }
  out_.Print(terminal_.Paint(Style::kDim, line) + "\n");
}

void LiveView::PrintRow(int64_t step) {
  if (columns_.empty()) PrintHeader();
  std::string line = RightAligned(absl::StrCat(step), 8);
  for (const size_t c : columns_) {
    absl::StrAppend(&line, "  ", RightAligned(Cell(c, step), kHeadlines[c].width));
  }
  out_.Print(line + "\n");
}

std::string LiveView::Cell(size_t column, int64_t step) {
  const Headline& headline = kHeadlines[column];
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run(options_.run);
  request.mutable_selector()->set_indicator(headline.indicator);
  if (headline.pick == Pick::kWholeRun) request.mutable_selector()->set_unit(v1::UNIT_NONE);
  request.set_first_step(std::max<int64_t>(0, step - options_.every_steps + 1));
  request.set_last_step(step);
  const auto answers = ReadPoints(daemon_, request);
  if (!answers.ok()) return "–";
  struct Sum {
    double value = 0;
    int count = 0;
  };
  std::map<int64_t, Sum> layers;  // -1: no layer
  for (const v1::QueryPointsResponse& answer : *answers) {
    if (answer.points().empty()) continue;
    Sum& sum = layers[answer.series().has_layer() ? answer.series().layer() : -1];
    sum.value += answer.points().rbegin()->value();
    ++sum.count;
  }
  if (layers.empty()) return "–";
  auto best = layers.begin();
  const auto mean = [](const Sum& sum) { return sum.value / sum.count; };
  for (auto at = layers.begin(); at != layers.end(); ++at) {
    const bool better = headline.pick == Pick::kHighestLayer
                            ? mean(at->second) > mean(best->second)
                            : mean(at->second) < mean(best->second);
    if (better) best = at;
  }
  const std::string value = FormatValue(mean(best->second));
  return headline.pick == Pick::kWholeRun
             ? value
             : absl::StrCat(value, terminal_.Paint(Style::kDim, absl::StrCat(" L", best->first)));
}

}  // namespace foreshock::cli
