// `foreshock top`: its frames, its keys, and what it makes of a daemon's metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/daemon_metrics.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "client/cli/top_data.h"
#include "client/cli/top_view.h"

namespace foreshock::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Terminal kTopPlain(/*is_tty=*/false, /*color=*/false, /*columns=*/80);
const Terminal kTopColored(/*is_tty=*/true, /*color=*/true, /*columns=*/80);
const absl::Time kTopNow = absl::FromUnixSeconds(1'800'000'000);

v1::Alert TopAlertOf(const std::string& id, const std::string& run, const std::string& severity,
                     int64_t step) {
  v1::Alert alert;
  alert.set_id(id);
  alert.set_run(run);
  alert.set_rule("rule_of_" + id);
  alert.set_severity(severity);
  alert.set_state(v1::ALERT_STATE_FIRING);
  alert.set_pending_step(step - 10);
  alert.set_firing_step(step);
  return alert;
}

TopRun TopRunOf(const std::string& name, v1::RunState state, int64_t last_step) {
  TopRun run;
  run.run.set_name(name);
  run.run.set_state(state);
  run.run.set_last_step(last_step);
  v1::Attempt* attempt = run.run.add_attempts();
  attempt->set_number(2);
  attempt->set_ranks_connected(7);
  attempt->set_world_size(8);
  run.losses = {4, 3, 2, 1};
  run.loss = 2.4713;
  run.steps_per_s = 3.25;
  return run;
}

TopData TopDataOf() {
  TopData data;
  data.at = kTopNow;
  data.steady_at = kTopNow;
  data.server = "gpu-1:7317";
  data.status.set_version("0.1.0");
  data.status.set_ready(true);
  data.status.set_started_unix_ns(absl::ToUnixNanos(kTopNow - absl::Hours(3)));
  data.status.set_streams(8);
  data.status.set_resident_bytes(64 << 20);
  data.status.set_store_bytes(12 << 20);
  data.status.set_store_writable(true);
  data.reports_per_s = 26;
  data.runs = {TopRunOf("exp-42", v1::RUN_STATE_LIVE, 1499),
               TopRunOf("exp-41", v1::RUN_STATE_FINISHED, 20'000)};
  data.runs[0].firing = {.critical = 1, .warning = 0, .info = 3};
  data.runs[1].steps_per_s.reset();
  data.alerts = {TopAlertOf("a1", "exp-42", "critical", 440),
                 TopAlertOf("a2", "exp-42", "info", 420)};
  data.alerts[0].set_fault("low_precision_attention");
  data.alerts[0].set_all_layers(true);
  data.alerts[1].add_layers(1);
  DaemonMetrics metrics;
  metrics.notifiers = {{.name = "log", .told = 16, .last_success_unix_s = 1'799'999'990},
                       {.name = "slack", .pending = 2, .oldest_pending_s = 720}};
  metrics.silences = 1;
  data.metrics = metrics;
  return data;
}

TopNews NewsOf(TopData data) {
  return {.data = std::make_shared<const TopData>(std::move(data)), .now = kTopNow};
}

std::string TopFrame(TopView& view, const TopNews& news, TopSize size,
                     const Terminal& terminal = kTopPlain) {
  std::string frame;
  for (std::string line : view.Draw(news, size)) {
    EXPECT_LE(DisplayWidth(line), size.columns) << line;
    line = terminal.Encode(line);
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&frame, line, "\n");
  }
  return frame;
}

TEST(TopViewTest, TheFirstPageHasHealthRunsAndAlerts) {
  TopView view;
  EXPECT_EQ("\n" + TopFrame(view, NewsOf(TopDataOf()), {.rows = 16, .columns = 80}), R"(
foreshockd 0.1.0 at gpu-1:7317  ready, up 3 h 0 min, 8 streams, 64 MiB
in 26.0 reports/s, 0 refused, 0 rejected; queue 0, 0 B; store 12 MiB
notifiers: slack: 2 waiting for 12 min; log: 16 told, last 10 s ago; 1 silence

RUNS
  RUN    STATE     ATT     STEP STEP/S FIRING INFO     LOSS
▸ exp-42 live        2     1499    3.2      1    3    2.471 █▆▃▁
  exp-41 finished    2    20000      -      0    0    2.471 █▆▃▁

ALERTS, 2 FIRING
  SEVERITY STATE       SINCE FAULT OR RULE            WHERE         RUN
  critical firing        440 low_precision_attention  all layers    exp-42
  info     firing        420 rule_of_a2               layer 1       exp-42


↑↓ move  enter open  ? help  q quit
)");
  EXPECT_EQ("\n" + TopFrame(view, NewsOf(TopDataOf()), {.rows = 0, .columns = 80}), R"(
foreshockd 0.1.0 at gpu-1:7317  ready, up 3 h 0 min, 8 streams, 64 MiB
in 26.0 reports/s, 0 refused, 0 rejected; queue 0, 0 B; store 12 MiB
notifiers: slack: 2 waiting for 12 min; log: 16 told, last 10 s ago; 1 silence

RUNS
  RUN    STATE     ATT     STEP STEP/S FIRING INFO     LOSS
  exp-42 live        2     1499    3.2      1    3    2.471 █▆▃▁
  exp-41 finished    2    20000      -      0    0    2.471 █▆▃▁

ALERTS, 2 FIRING
  SEVERITY STATE       SINCE FAULT OR RULE            WHERE         RUN
  critical firing        440 low_precision_attention  all layers    exp-42
  info     firing        420 rule_of_a2               layer 1       exp-42
)");
}

TEST(TopViewTest, ARunShowsItsLayersAgainstTheirBaselines) {
  TopData data = TopDataOf();
  data.run = "exp-42";
  data.columns = {kHeadlines[2], kHeadlines[4]};
  data.layers = {
      {.layer = 1, .cells = {{.value = 0.7432, .median = 0.9}, {.value = 15.2, .median = 1}}},
      {.layer = 2, .cells = {{.value = 0.8}, {}}}};
  data.run_alerts = data.alerts;
  data.run_alerts[0].set_indicator(kHeadlines[2].indicator);
  data.run_alerts[0].set_baseline(0.8266);
  ApplyAlerts(data.run_alerts, data.columns, &data.layers);
  TopView view("exp-42");
  EXPECT_EQ("\n" + TopFrame(view, NewsOf(data), {.rows = 18, .columns = 80}), R"(
foreshockd 0.1.0 at gpu-1:7317  ready, up 3 h 0 min, 8 streams, 64 MiB
in 26.0 reports/s, 0 refused, 0 rejected; queue 0, 0 B; store 12 MiB
notifiers: slack: 2 waiting for 12 min; log: 16 told, last 10 s ago; 1 silence

exp-42  live, attempt 2, step 1499, 3.2 steps/s, 7 of 8 ranks
loss 2.471  █▆▃▁

LAYERS
  LAYER   QK ENTROPY    LOGIT MAX
▸     1 0.7432  -10%  15.20   ×15
      2 0.8000   -3%            -

ALERTS, 2 FIRING
  SEVERITY STATE       SINCE FAULT OR RULE                 WHERE
  critical firing        440 low_precision_attention       all layers
  info     firing        420 rule_of_a2                    layer 1

↑↓ move  enter open  esc back  ? help  q quit
)");
  const std::string painted =
      TopFrame(view, NewsOf(data), {.rows = 18, .columns = 80}, kTopColored);
  EXPECT_THAT(painted, HasSubstr("\033[1;31m0.7432  -10%\033[0m"));  // the alert's colour
  EXPECT_THAT(painted, HasSubstr("\033[1m15.20   ×15\033[0m"));      // it moved, nothing fires
}

TEST(TopViewTest, KeysMoveOpenAndComeBack) {
  TopView view;
  const TopNews news = NewsOf(TopDataOf());
  const TopSize size{.rows = 24, .columns = 80};
  EXPECT_THAT(TopFrame(view, news, size), HasSubstr("▸ exp-42"));
  EXPECT_THAT(view.wanted().runs, ElementsAre("exp-42", "exp-41"));
  EXPECT_TRUE(view.Press(TopKey::kDown));
  EXPECT_THAT(TopFrame(view, news, size), HasSubstr("▸ exp-41"));
  view.Press(TopKey::kEnter);
  EXPECT_EQ(view.wanted().run, "exp-41");
  EXPECT_THAT(TopFrame(view, news, size),
              AllOf(HasSubstr("exp-41  finished"), HasSubstr("asking")));
  view.Press(TopKey::kBack);
  EXPECT_EQ(view.wanted().run, "");
  EXPECT_THAT(TopFrame(view, news, size), HasSubstr("▸ exp-41"));
  view.Press(TopKey::kEnd);
  EXPECT_THAT(TopFrame(view, news, size), HasSubstr("▸ info"));
  view.Press(TopKey::kUp);
  TopFrame(view, news, size);
  view.Press(TopKey::kEnter);
  EXPECT_THAT(TopFrame(view, news, size), HasSubstr("CRITICAL  low_precision_attention"));
  view.Press(TopKey::kHelp);
  EXPECT_THAT(TopFrame(view, news, size), HasSubstr("page up, page down"));
  view.Press(TopKey::kBack);
  view.Press(TopKey::kBack);
  EXPECT_THAT(TopFrame(view, news, size), HasSubstr("▸ critical"));
  EXPECT_TRUE(view.Press(TopKey::kBack));  // the first page has nothing below it
  EXPECT_FALSE(view.Press(TopKey::kQuit));
}

TEST(TopViewTest, TheCursorStaysOnItsRunWhenTheListMoves) {
  TopView view;
  const TopSize size{.rows = 24, .columns = 80};
  TopFrame(view, NewsOf(TopDataOf()), size);
  view.Press(TopKey::kDown);
  TopData data = TopDataOf();
  data.runs.insert(data.runs.begin(), TopRunOf("exp-43", v1::RUN_STATE_LIVE, 1));
  EXPECT_THAT(TopFrame(view, NewsOf(data), size), HasSubstr("▸ exp-41"));
  data.runs.pop_back();
  EXPECT_THAT(TopFrame(view, NewsOf(data), size),
              HasSubstr("▸ critical"));  // what stands there now
}

TEST(TopViewTest, AThousandRunsScrollAndFit) {
  TopData data = TopDataOf();
  data.runs.clear();
  for (int i = 0; i < 1000; ++i) {
    data.runs.push_back(TopRunOf(absl::StrCat("run-", i), v1::RUN_STATE_LIVE, i));
  }
  TopView view;
  for (const TopSize size : {TopSize{24, 80}, TopSize{8, 40}, TopSize{1, 20}, TopSize{60, 200}}) {
    EXPECT_EQ(view.Draw(NewsOf(data), size).size(), size.rows);
    TopFrame(view, NewsOf(data), size);
  }
  const TopSize size{24, 80};
  TopFrame(view, NewsOf(data), size);
  for (int i = 0; i < 30; ++i) view.Press(TopKey::kPageDown);
  EXPECT_THAT(TopFrame(view, NewsOf(data), size),
              AllOf(HasSubstr(" of 1000"), HasSubstr("▸ run-")));
  EXPECT_LE(view.wanted().runs.size(), 2 * kTopRunsFirst);
}

TEST(TopViewTest, HostileNamesMoveNothing) {
  TopData data = TopDataOf();
  const std::string name = "\033[2J\u202e" + std::string(300, 'x') + "日本";
  data.runs[0].run.set_name(name);
  data.alerts[0].set_run(name);
  data.alerts[0].set_fault("\u2066bad\nline");
  data.alerts[0].set_unit_name("\033]0;title\007");
  data.server = "\u202ehost";
  data.metrics->notifiers[0].name = "\033[31mlog";
  TopView view;
  for (int page = 0; page < 2; ++page) {
    const std::string frame = TopFrame(view, NewsOf(data), {.rows = 24, .columns = 80});
    EXPECT_THAT(frame, AllOf(Not(HasSubstr("\033")), Not(HasSubstr("\u202e")),
                             Not(HasSubstr("\u2066")), HasSubstr("\\x1b")));
    view.Press(TopKey::kEnter);
  }
}

TEST(TopViewTest, ADaemonThatDoesNotAnswerIsSaidAndWhatWasSeenStays) {
  TopView view;
  EXPECT_EQ(TopFrame(view, {.now = kTopNow}, {.rows = 24, .columns = 80}),
            "asking the daemon ...\n");
  TopNews news = NewsOf(TopDataOf());
  news.trouble = "connection refused";
  news.retry_at = kTopNow + absl::Seconds(12);
  news.now = kTopNow + absl::Seconds(8);
  EXPECT_THAT(
      TopFrame(view, news, {.rows = 24, .columns = 80}),
      AllOf(HasSubstr("no answer from gpu-1:7317 for 8 s, again in 4 s: connection refused"),
            HasSubstr("exp-42")));
}

TEST(TopDataTest, TheMedianLeavesOutTheNewestQuarter) {
  EXPECT_EQ(TrailingMedian({1, 2, 3}), std::nullopt);
  EXPECT_EQ(TrailingMedian({1, 2, 3, 100}), 2);
  EXPECT_EQ(TrailingMedian({5, 5, 5, 5, 5, 5, 9, 9}), 5);
}

TEST(TopDataTest, TheGravestAlertColoursItsLayers) {
  const std::vector<Headline> columns = {kHeadlines[2]};
  std::vector<TopLayer> layers = {{.layer = 0, .cells = {{.value = 1, .median = 7}}},
                                  {.layer = 1, .cells = {{.value = 1, .median = 7}}}};
  v1::Alert info = TopAlertOf("i", "r", "info", 10);
  info.set_indicator(columns[0].indicator);
  info.set_all_layers(true);
  info.set_baseline(2);
  v1::Alert warning = TopAlertOf("w", "r", "warning", 20);
  warning.set_indicator(columns[0].indicator);
  warning.add_layers(1);
  v1::Alert resolved = TopAlertOf("c", "r", "critical", 30);
  resolved.set_indicator(columns[0].indicator);
  resolved.set_all_layers(true);
  resolved.set_state(v1::ALERT_STATE_RESOLVED);
  ApplyAlerts({info, warning, resolved}, columns, &layers);
  EXPECT_EQ(layers[0].cells[0].severity, "info");
  EXPECT_EQ(layers[0].cells[0].baseline(), 2);
  EXPECT_EQ(layers[1].cells[0].severity, "warning");
  EXPECT_EQ(layers[1].cells[0].baseline(), 7);  // the alert has none
}

TEST(DaemonMetricsTest, NotifiersAreReadWhateverTheirNames) {
  const DaemonMetrics metrics = ParseDaemonMetrics(
      "# HELP foreshock_queue_items x\n"
      "foreshock_queue_items 3\n"
      "foreshock_queue_bytes 2.5e3\n"
      "foreshock_silences 2\n"
      "foreshock_reports_refused_total{reason=\"overload\"} 4\n"
      "foreshock_reports_refused_total{reason=\"sink\"} 1\n"
      "foreshock_notifications_total{notifier=\"a \\\"b\\\", {c}\\n\",result=\"sent\"} 5\n"
      "foreshock_notifications_total{notifier=\"a \\\"b\\\", {c}\\n\",result=\"repeated\"} 6\n"
      "foreshock_notifications_total{notifier=\"a \\\"b\\\", {c}\\n\",result=\"silenced\"} 9\n"
      "foreshock_notifications_pending{notifier=\"pager\"} 2\n"
      "foreshock_notifications_oldest_pending_seconds{notifier=\"pager\"} 400.5\n"
      "foreshock_notifications_trouble{notifier=\"pager\",trouble=\"told_twice\"} 1\n"
      "foreshock_notifications_pending{notifier=\"none\"} 0\n"
      "foreshock_notifications_total{notifier=\n"
      "foreshock_notifications_total{notifier=\"x\n"
      "foreshock_notifications_total\n"
      "foreshock_queue_items many\n");
  EXPECT_EQ(metrics.queue_items, 3u);
  EXPECT_EQ(metrics.queue_bytes, 2500u);
  EXPECT_EQ(metrics.silences, 2u);
  EXPECT_EQ(metrics.reports_refused, 5u);
  ASSERT_EQ(metrics.notifiers.size(), 2u);
  EXPECT_EQ(metrics.notifiers[0].name, "a \"b\", {c}\n");
  EXPECT_EQ(metrics.notifiers[0].told, 11u);
  EXPECT_EQ(metrics.notifiers[1].name, "pager");
  EXPECT_EQ(metrics.notifiers[1].pending, 2u);
  EXPECT_EQ(metrics.notifiers[1].troubles, std::vector<std::string>{"told_twice"});
  EXPECT_EQ(metrics.notifiers[1].health(), NotifierMetrics::Health::kBad);
}

TEST(DaemonMetricsTest, ANotifierInOneLine) {
  using Health = NotifierMetrics::Health;
  const int64_t now = absl::ToUnixSeconds(kTopNow);
  const struct {
    NotifierMetrics notifier;
    const char* text;
    Health health;
  } kCases[] = {
      {{.name = "log"}, "log: 0 told", Health::kGood},
      {{.name = "log", .told = 1234, .last_success_unix_s = now - 180},
       "log: 1 234 told, last 3 min ago",
       Health::kGood},
      {{.name = "s", .told = 1, .last_success_unix_s = now - 90, .last_failure_unix_s = now - 8},
       "s: 1 told, last failed 8.0 s ago",
       Health::kTrouble},
      {{.name = "s", .told = 3, .pending = 2, .oldest_pending_s = 12, .last_success_unix_s = now},
       "s: 2 waiting for 12 s, last 0.0 s ago",
       Health::kGood},
      {{.name = "s", .refused = 1}, "s: 0 told, 1 given up", Health::kTrouble},
      {{.name = "s", .pending = 1, .oldest_pending_s = 301},
       "s: 1 waiting for 5 min",
       Health::kBad},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(NotifierText(c.notifier, kTopNow), c.text);
    EXPECT_EQ(c.notifier.health(), c.health) << c.text;
  }
}

}  // namespace
}  // namespace foreshock::cli
