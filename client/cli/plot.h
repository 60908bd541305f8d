// One series drawn with characters: braille dots, or stars where the terminal has no UTF-8.
//
//   Plot plot{.points = PlotPoints(answer), .marks = {{440, Style::kRedBold}}};
//   for (const std::string& line : DrawPlot(plot, out, {.columns = 80, .rows = 12})) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

// What the series did from first_step to last_step, both inclusive.
struct PlotPoint {
  int64_t first_step = 0;
  int64_t last_step = 0;
  double min = 0;
  double max = 0;
  double last = 0;
  uint32_t attempt = 0;
};

// Something that happened, shown below the axis of steps.
struct PlotMark {
  int64_t step = 0;
  Style style = Style::kPlain;
};

struct Plot {
  std::vector<PlotPoint> points{};  // by step; finite values
  std::vector<PlotMark> marks{};    // the gravest last: it hides others in its column
};

struct PlotSize {
  size_t columns = 80;  // in all, with the axis
  size_t rows = 12;     // of the curve
};

// The points or buckets of one answer.
std::vector<PlotPoint> PlotPoints(const v1::QueryPointsResponse& answer);

// The curve between its axes, then a row of steps, then, where there are any, a row of attempts and
// one of marks. A bucket is drawn from its least to its greatest value, so that no spike is lost.
// Values of two attempts are not joined; a new attempt begins at a dotted line. No lines without
// points. Lines are painted and have no line feed.
std::vector<std::string> DrawPlot(const Plot& plot, const Terminal& terminal, PlotSize size);

}  // namespace foreshock::cli
