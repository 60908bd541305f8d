#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/backtest/plot.h"
#include "daemon/base/gnuplot.h"

namespace foreshock::backtest {
namespace {

constexpr int kCurvesWidth = 1200;
constexpr int kCurvesPanel = 190;
constexpr int kCurvesGap = 34;  // above each panel, for its title
constexpr int kCurvesTop = 40;
constexpr int kCurvesBottom = 60;

}  // namespace

std::string CurvesScript(const CurvesPlot& plot, const std::string& file) {
  const int height = kCurvesTop + kCurvesBottom +
                     static_cast<int>(plot.panels.size()) * (kCurvesPanel + kCurvesGap);
  const auto screen = [height](int from_top) {
    return 1.0 - static_cast<double>(from_top) / height;
  };
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  for (const CurvesPlot::Panel& panel : plot.panels) {
    for (const CurvesPlot::Line& line : panel.lines) {
      if (line.points.empty()) continue;
      first = std::min(first, line.points.front().step);
      last = std::max(last, line.points.back().step);
    }
  }
  if (first >= last) {
    first = std::min<int64_t>(first, 0);
    last = first + 1;
  }
  std::string text = absl::StrFormat(
      "%sset multiplot\nset lmargin at screen 0.10\nset rmargin at screen 0.975\n"
      "set tics nomirror out scale 0.5\nset border 3 lc rgb '#666666'\n"
      "set grid xtics ytics lc rgb '#e4e4e4' lt 1 lw 1\n"
      "set key at graph 0.995,0.98 right top horizontal samplen 1.5 font ',10' opaque\n"
      "set xrange [%d:%d]\n"
      "set label 1 %s at screen 0.10,%.5f left front font ',15'\n",
      base::gnuplot::Output(file, kCurvesWidth, height), first, last,
      base::gnuplot::Quote(plot.title), screen(18));
  int top = kCurvesTop;
  for (size_t number = 0; number < plot.panels.size(); ++number) {
    const CurvesPlot::Panel& panel = plot.panels[number];
    top += kCurvesGap;
    absl::StrAppendFormat(&text,
                          "set tmargin at screen %.5f\nset bmargin at screen %.5f\nunset arrow\n%s"
                          "set label 2 %s at graph 0,1.0 offset 0,0.6 left front font ',11'\n",
                          screen(top), screen(top + kCurvesPanel),
                          number + 1 == plot.panels.size()
                              ? absl::StrCat("set format x '%.0f'\nset xlabel ",
                                             base::gnuplot::Quote(plot.x_label), "\n")
                              : "set format x ''\nunset xlabel\n",
                          base::gnuplot::Quote(panel.title));
    top += kCurvesPanel;
    int label = 3;
    for (const CurvesPlot::Mark& mark : panel.marks) {
      absl::StrAppendFormat(&text,
                            "set arrow from first %d,graph 0 to first %d,graph 1 nohead front lw "
                            "1.5 dt 2 lc rgb '#555555'\n"
                            "set label %d %s at first %d,graph 0.06 left front offset 0.6,0 tc rgb "
                            "'#555555' font ',10'\n",
                            mark.x, mark.x, label++, base::gnuplot::Quote(mark.text), mark.x);
    }
    std::string lines;
    size_t colour = 0;
    for (size_t i = 0; i < panel.lines.size(); ++i) {
      const CurvesPlot::Line& line = panel.lines[i];
      if (i > 0 && !line.second) ++colour;
      const std::string name = absl::StrCat("p", number, "l", i);
      absl::StrAppend(&text, "$", name, " << EOD\n");
      const auto value = [](const rules::TrendPoint& point) { return point.value; };
      for (const rules::TrendPoint& point : base::gnuplot::Thinned(line.points, value)) {
        absl::StrAppend(&text, point.step, " ", base::gnuplot::Number(point.value), "\n");
      }
      absl::StrAppend(&text, "EOD\n");
      absl::StrAppendFormat(
          &lines, "%s$%s with lines lw 1.6%s lc rgb '%s' %s", lines.empty() ? "" : ", ", name,
          line.second ? " dt 2" : "", base::gnuplot::kColours[colour % base::gnuplot::kColoured],
          line.name.empty() ? "notitle" : absl::StrCat("title ", base::gnuplot::Quote(line.name)));
    }
    absl::StrAppend(&text, "set offsets graph 0,0,graph 0.18,graph 0.03\nplot ",
                    lines.empty() ? "NaN notitle" : lines, "\nunset offsets\nunset label 1\n");
    for (int i = 3; i < label; ++i) absl::StrAppend(&text, "unset label ", i, "\n");
  }
  absl::StrAppend(&text, "unset multiplot\nset output\n");
  return text;
}

}  // namespace foreshock::backtest
