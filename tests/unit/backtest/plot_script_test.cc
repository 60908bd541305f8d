#include "daemon/backtest/plot.h"

#include <cstdlib>
#include <string>

#include "daemon/base/gnuplot.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::backtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPlotRules[] =
    "groups:\n"
    "  - name: g\n"
    "    defaults: {warm_up: judge, labels: {severity: info}}\n"
    "    rules:\n"
    "      - {alert: high, indicator: train.loss, threshold: {above: 5}}\n"
    "      - {alert: very_high, indicator: train.loss, threshold: {above: 50}}\n"
    "      - {alert: lr_high, indicator: train.lr, threshold: {above: 1}}\n"
    "signatures:\n"
    "  - {signature: bad, when: high, labels: {severity: warning, fault: f}}\n";

class Plot : public ::testing::Test {
 protected:
  // Loss 3, from step 60 on 9 without an end; 100 steps.
  void Run() {
    Backtest first(rules_);
    Feed(&first);
    result_ = first.Finish();
    verdict_ = JudgeRun(*rules_, result_, nullptr);
    Backtest second(rules_, RulesToTrace(*rules_, result_, verdict_));
    Feed(&second);
    second.Finish();
    trace_ = second.TakeTrace();
  }
  static void Feed(Backtest* backtest) {
    backtest->BeginAttempt("run", v1::ModelShape(), rules::AttemptStart());
    for (int64_t step = 0; step < 100; ++step) {
      model::ClosedStep closed;
      closed.row.step = step;
      closed.samples.push_back(
          {{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""}, step < 60 ? 3.0 : 9.0, 0});
      backtest->OnStep(closed);
    }
  }
  PlotInput Input() const {
    return {.title = "a run's name", .result = &result_, .verdict = &verdict_, .trace = &trace_};
  }

  const std::shared_ptr<const rules::RuleSet> rules_ =
      rules::ParseRules("test.yaml", kPlotRules).value();
  RunResult result_;
  RunVerdict verdict_;
  RunTrace trace_;
};

TEST_F(Plot, TracesTheEvidenceFirstAndEachIndicatorOnce) {
  Run();
  EXPECT_THAT(RulesToTrace(*rules_, result_, verdict_), ElementsAre("high", "lr_high"));
  ASSERT_EQ(trace_.curves.size(), 1u);  // the run has no learning rate
  EXPECT_EQ(trace_.curves[0].points.size(), 100u);
  EXPECT_EQ(trace_.curves[0].points[60].value, 9);
  EXPECT_EQ(trace_.curves[0].points[60].limit, 5);
  EXPECT_EQ(trace_.curves[0].points[60].baseline, std::nullopt);
}

TEST_F(Plot, ScriptHoldsCurvesAlertsAndQuotedText) {
  Run();
  const std::string script = PlotScript(Input(), "out's.svg");
  EXPECT_THAT(script, HasSubstr("set terminal svg"));
  EXPECT_THAT(script, HasSubstr("set output 'out''s.svg'"));
  EXPECT_THAT(script, HasSubstr("'a run''s name'"));
  EXPECT_THAT(script, HasSubstr("\n60 9\n"));
  EXPECT_THAT(script, HasSubstr("'first warning: f'"));
  EXPECT_THAT(script, HasSubstr("from first 60,graph 0 to first 99,graph 1"));  // the warning
  EXPECT_THAT(PlotScript(Input(), "out.png"), HasSubstr("set terminal pngcairo"));
}

TEST_F(Plot, ARunWithNothingInItCanBeDrawn) {
  const std::string script = PlotScript(Input(), "out.svg");
  EXPECT_THAT(script, HasSubstr("the run has none"));
  EXPECT_THAT(script, HasSubstr("alerts: none"));
}

TEST_F(Plot, FileNamesEndInTheFormat) {
  EXPECT_OK(base::CheckPlotFile("a.svg"));
  EXPECT_OK(base::CheckPlotFile("a.png"));
  EXPECT_THAT(base::CheckPlotFile("a.pdf"),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(".svg or .png")));
}

TEST_F(Plot, WithoutGnuplotTheErrorNamesThePackage) {
  const support::TempDir empty;
  const std::string path = std::getenv("PATH");
  ASSERT_EQ(setenv("PATH", empty.path().c_str(), 1), 0);
  const absl::Status status = base::RunGnuplot("");
  ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
  EXPECT_THAT(status, support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("apt-get install gnuplot-nox")));
}

TEST(CurvesScript, DrawsAPanelOfEachWithItsLinesAndMarks) {
  CurvesPlot plot{.title = "two runs", .x_label = "tokens"};
  plot.panels.push_back({.title = "loss, layer 0",
                         .lines = {{.name = "it's a", .points = {{0, 1}, {10, 2}}},
                                   {.name = "b", .points = {{10, 3}}}},
                         .marks = {{7, "differs"}}});
  plot.panels.push_back({.title = "nothing"});
  const std::string script = CurvesScript(plot, "a.png");
  EXPECT_THAT(script, HasSubstr("set terminal pngcairo"));
  EXPECT_THAT(script, HasSubstr("set xrange [0:10]"));
  EXPECT_THAT(script, HasSubstr("$p0l0 << EOD\n0 1\n10 2\nEOD"));
  EXPECT_THAT(script, HasSubstr("title 'it''s a'"));
  EXPECT_THAT(script, HasSubstr("set arrow from first 7,"));
  EXPECT_THAT(script, HasSubstr("set xlabel 'tokens'"));
  EXPECT_THAT(script, HasSubstr("plot NaN notitle"));
}

}  // namespace
}  // namespace foreshock::backtest
