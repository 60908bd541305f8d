// `foreshock query --plot`: whole frames, character by character.
#include "client/cli/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/cli/text.h"

namespace foreshock::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Terminal kPlotUtf8(/*is_tty=*/true, /*color=*/false, /*columns=*/80);
const Terminal kPlotAscii(/*is_tty=*/true, /*color=*/false, /*columns=*/80, /*utf8=*/false);
const Terminal kPlotColored(/*is_tty=*/true, /*color=*/true, /*columns=*/80);

PlotPoint PointAt(int64_t step, double value, uint32_t attempt = 1) {
  return {step, step, value, value, value, attempt};
}

std::string PlotFrame(const Plot& plot, const Terminal& terminal, PlotSize size) {
  return terminal.Encode(absl::StrJoin(DrawPlot(plot, terminal, size), "\n"));
}

TEST(PlotTest, ALineRisesFromCornerToCorner) {
  Plot plot;
  for (int64_t step = 0; step <= 30; ++step) plot.points.push_back(PointAt(step, 10.0 * step));
  EXPECT_EQ("\n" + PlotFrame(plot, kPlotAscii, {.columns = 26, .rows = 5}),
            R"(
300 +                  ***
    |             ******
150 +        ******
    |   ******
  0 +****
    ++------+-----+------+
     0     10    20     30)");
  EXPECT_EQ("\n" + PlotFrame(plot, kPlotUtf8, {.columns = 26, .rows = 3}),
            R"(
300 ┤              ⣀⣀⡤⠤⠖⠒⠋
150 ┤       ⣀⣠⠤⠤⠖⠚⠉⠁
  0 ┤⣀⡤⠤⠖⠒⠋⠉⠁
    └┬──────┬─────┬──────┬
     0     10    20     30)");
}

TEST(PlotTest, ABucketIsDrawnFromItsLeastToItsGreatest) {
  Plot plot;
  for (int64_t bucket = 0; bucket < 20; ++bucket) {
    const bool spike = bucket == 10;
    plot.points.push_back({bucket * 64, bucket * 64 + 63, 2, spike ? 10.0 : 2.5, 2, 1});
  }
  EXPECT_EQ("\n" + PlotFrame(plot, kPlotAscii, {.columns = 26, .rows = 5}), R"(
10 +           **
   |           **
 6 +           **
   |           **
 2 +**********************
   ++-------+-------+-----
    0      500    1000)");
}

TEST(PlotTest, ANewAttemptBeginsAtADottedLineAndIsNotJoined) {
  Plot plot;
  for (int64_t step = 0; step < 50; ++step) plot.points.push_back(PointAt(step, 8, 1));
  for (int64_t step = 50; step < 100; ++step) plot.points.push_back(PointAt(step, 2, 2));
  plot.marks = {{20, Style::kCyan}, {75, Style::kRedBold}, {900, Style::kRedBold}};
  EXPECT_EQ("\n" + PlotFrame(plot, kPlotUtf8, {.columns = 43, .rows = 5}), R"(
8 ┤⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉┊
  │                    ┊
5 ┤                    ┊
  │                    ┊
2 ┤                    ⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀
  └┬───────┬───────┬───────┬───────┬───────
   0      20      40      60      80
   attempt 1           attempt 2
           ▲                     ▲)");
  EXPECT_THAT(PlotFrame(plot, kPlotColored, {.columns = 43, .rows = 5}),
              AllOf(HasSubstr("\033[36m▲\033[0m"), HasSubstr("\033[1;31m▲\033[0m")));
}

TEST(PlotTest, OddDataStillGivesAFrame) {
  const std::vector<std::vector<PlotPoint>> kSeries = {
      {PointAt(7, 3)},
      {PointAt(7, 0), PointAt(9, 0)},
      {PointAt(0, -1e308), PointAt(1, 1e308)},
      {PointAt(0, 5e-324), PointAt(int64_t{1} << 62, 1)},
      {PointAt(9'223'372'036'854'775'806, 1), PointAt(9'223'372'036'854'775'807, 2)},
  };
  for (const auto& points : kSeries) {
    for (const PlotSize size : {PlotSize{80, 12}, PlotSize{1, 1}, PlotSize{200, 40}}) {
      const std::vector<std::string> lines = DrawPlot({.points = points}, kPlotUtf8, size);
      EXPECT_EQ(lines.size(), std::max<size_t>(3, size.rows) + 2);
      for (const std::string& line : lines) {
        // Too narrow a plot is as wide as its labels and a little more.
        EXPECT_LE(DisplayWidth(line), std::max<size_t>(40, size.columns)) << line;
      }
    }
  }
  EXPECT_THAT(DrawPlot({}, kPlotUtf8, {}), IsEmpty());
}

TEST(PlotTest, PointsAndBucketsComeFromTheAnswer) {
  v1::QueryPointsResponse answer;
  v1::Point* point = answer.add_points();
  point->set_step(3);
  point->set_value(0.5);
  point->set_attempt(2);
  v1::Bucket* bucket = answer.add_buckets();
  bucket->set_first_step(64);
  bucket->set_last_step(120);
  bucket->set_min(1);
  bucket->set_max(4);
  bucket->set_last(2);
  bucket->set_attempt(3);
  const std::vector<PlotPoint> points = PlotPoints(answer);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].last_step, 3);
  EXPECT_EQ(points[0].max, 0.5);
  EXPECT_EQ(points[1].first_step, 64);
  EXPECT_EQ(points[1].last_step, 120);
  EXPECT_EQ(points[1].min, 1);
  EXPECT_EQ(points[1].last, 2);
  EXPECT_EQ(points[1].attempt, 3u);
}

}  // namespace
}  // namespace foreshock::cli
