#include "client/cli/plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/format.h"

namespace foreshock::cli {
namespace {

// Dots in cells: 2 x 4 in a braille character, 1 x 1 in ASCII.
class DotCanvas {
 public:
  DotCanvas(size_t columns, size_t rows, bool braille)
      : dots_x_(braille ? 2 : 1),
        dots_y_(braille ? 4 : 1),
        columns_(columns),
        cells_(columns * rows) {
    height_ = rows * dots_y_;
  }

  size_t width() const { return columns_ * dots_x_; }
  size_t height() const { return height_; }
  size_t CellOf(size_t x) const { return x / dots_x_; }

  void SetColumn(size_t x, size_t y0, size_t y1) {
    for (size_t y = std::min(y0, y1); y <= std::max(y0, y1); ++y) {
      // The dots of a braille character, by column and row.
      static constexpr uint8_t kBits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
      cells_[y / dots_y_ * columns_ + x / dots_x_] |= kBits[x % dots_x_][y % dots_y_];
    }
  }

  // Empty for a cell without a dot.
  std::string Cell(size_t column, size_t row) const {
    const uint8_t bits = cells_[row * columns_ + column];
    if (bits == 0) return "";
    if (dots_x_ == 1) return "*";
    // U+2800 + bits in UTF-8.
    return {'\xE2', static_cast<char>(0xA0 + (bits >> 6)), static_cast<char>(0x80 + (bits & 0x3F))};
  }

 private:
  const size_t dots_x_;
  const size_t dots_y_;
  const size_t columns_;
  size_t height_ = 0;
  std::vector<uint8_t> cells_;
};

// A line of cells that text is put into.
class CellRow {
 public:
  explicit CellRow(size_t columns) : cells_(columns, " ") {}

  // Whether `text`, ASCII, fits at `column` with a blank before it; if so it is there.
  bool Put(size_t column, absl::string_view text) {
    if (column + text.size() > cells_.size() || column < free_) return false;
    for (size_t i = 0; i < text.size(); ++i) cells_[column + i] = std::string(1, text[i]);
    free_ = column + text.size() + 1;
    return true;
  }
  void Set(size_t column, const std::string& cell) { cells_[column] = cell; }

  std::string Text() const {
    std::string text = absl::StrJoin(cells_, "");
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  std::vector<std::string> cells_;
  size_t free_ = 0;
};

struct Extent {
  int64_t first_step = 0;
  int64_t last_step = 0;
  double min = 0;
  double max = 0;
};

Extent ExtentOf(const std::vector<PlotPoint>& points) {
  Extent extent = {points.front().first_step, points.back().last_step, points.front().min,
                   points.front().max};
  for (const PlotPoint& point : points) {
    extent.last_step = std::max(extent.last_step, point.last_step);
    extent.min = std::min(extent.min, point.min);
    extent.max = std::max(extent.max, point.max);
  }
  if (extent.min == extent.max) {  // a flat line in the middle
    const double margin = extent.min == 0 ? 1 : std::abs(extent.min) * 0.05;
    extent.min -= margin;
    extent.max += margin;
  }
  return extent;
}

// The dot, of `dots`, that stands for the step.
size_t DotOf(int64_t step, const Extent& extent, size_t dots) {
  const auto span = static_cast<double>(extent.last_step - extent.first_step);
  if (span <= 0) return 0;
  const double at = static_cast<double>(step - extent.first_step) / span;
  return static_cast<size_t>(std::lround(std::clamp(at, 0.0, 1.0) * static_cast<double>(dots - 1)));
}

void DrawCurve(const std::vector<PlotPoint>& points, const Extent& extent, DotCanvas* canvas) {
  const auto y_of = [&](double value) {
    // Halves first: the difference of two doubles may be too large for one.
    const double down = (extent.max / 2 - value / 2) / (extent.max / 2 - extent.min / 2);
    return static_cast<size_t>(
        std::lround(std::clamp(down, 0.0, 1.0) * static_cast<double>(canvas->height() - 1)));
  };
  const PlotPoint* before = nullptr;
  for (const PlotPoint& point : points) {
    const size_t begin = DotOf(point.first_step, extent, canvas->width());
    const size_t end = DotOf(point.last_step, extent, canvas->width());
    if (before != nullptr && before->attempt == point.attempt) {
      const size_t from = DotOf(before->last_step, extent, canvas->width());
      const double entry = std::clamp(before->last, point.min, point.max);
      size_t y = y_of(before->last);
      if (from == begin) canvas->SetColumn(begin, y, y_of(entry));
      for (size_t x = from + 1; x <= begin; ++x) {
        const double share = static_cast<double>(x - from) / static_cast<double>(begin - from);
        const size_t next = y_of(before->last * (1 - share) + entry * share);
        canvas->SetColumn(x, y, next);
        y = next;
      }
    }
    for (size_t x = begin; x <= end; ++x) canvas->SetColumn(x, y_of(point.max), y_of(point.min));
    before = &point;
  }
}

// 1, 2 or 5 times a power of ten, at least `least` and 1.
int64_t NiceInterval(double least) {
  int64_t power = 1;
  while (power < int64_t{1'000'000'000'000'000'000} && static_cast<double>(power) * 10 <= least) {
    power *= 10;
  }
  for (const int64_t factor : {1, 2, 5}) {
    if (static_cast<double>(power) * static_cast<double>(factor) >= least) return power * factor;
  }
  return power > int64_t{900'000'000'000'000'000} ? power : power * 10;
}

std::vector<int64_t> TickSteps(const Extent& extent, size_t columns) {
  const size_t label = absl::StrCat(extent.last_step).size() + 3;
  const auto ticks = static_cast<double>(std::max<size_t>(1, columns / label));
  const int64_t every =
      NiceInterval(static_cast<double>(extent.last_step - extent.first_step) / ticks);
  std::vector<int64_t> steps;
  int64_t step = extent.first_step / every * every;
  if (step < extent.first_step) step += every;
  for (; step <= extent.last_step; step += every) {
    steps.push_back(step);
    if (step > extent.last_step - every) break;
  }
  return steps;
}

// Cells at which an attempt begins, of all but the first.
std::vector<std::pair<size_t, uint32_t>> AttemptCells(const std::vector<PlotPoint>& points,
                                                      const Extent& extent,
                                                      const DotCanvas& canvas) {
  std::vector<std::pair<size_t, uint32_t>> cells;
  for (size_t i = 1; i < points.size(); ++i) {
    if (points[i].attempt == points[i - 1].attempt) continue;
    cells.emplace_back(canvas.CellOf(DotOf(points[i].first_step, extent, canvas.width())),
                       points[i].attempt);
  }
  return cells;
}

}  // namespace

std::vector<PlotPoint> PlotPoints(const v1::QueryPointsResponse& answer) {
  std::vector<PlotPoint> points;
  for (const v1::Point& point : answer.points()) {
    points.push_back(
        {point.step(), point.step(), point.value(), point.value(), point.value(), point.attempt()});
  }
  for (const v1::Bucket& bucket : answer.buckets()) {
    points.push_back({bucket.first_step(), bucket.last_step(), bucket.min(), bucket.max(),
                      bucket.last(), bucket.attempt()});
  }
  return points;
}

std::vector<std::string> DrawPlot(const Plot& plot, const Terminal& terminal, PlotSize size) {
  if (plot.points.empty()) return {};
  const Extent extent = ExtentOf(plot.points);
  const std::string labels[] = {FormatValue(extent.max),
                                FormatValue(extent.max / 2 + extent.min / 2),
                                FormatValue(extent.min)};
  size_t margin = 0;
  for (const std::string& label : labels) margin = std::max(margin, label.size());
  const size_t axis = margin + 2;  // a blank and the axis itself
  const size_t columns = std::max<size_t>(size.columns, axis + 10) - axis;
  const size_t rows = std::max<size_t>(3, size.rows);

  DotCanvas canvas(columns, rows, terminal.utf8());
  DrawCurve(plot.points, extent, &canvas);
  const auto attempts = AttemptCells(plot.points, extent, canvas);
  const auto cell_of = [&](int64_t step) {
    return canvas.CellOf(DotOf(step, extent, canvas.width()));
  };

  std::vector<std::string> lines;
  for (size_t row = 0; row < rows; ++row) {
    const std::string* label = row == 0          ? &labels[0]
                               : row == rows / 2 ? &labels[1]
                               : row == rows - 1 ? &labels[2]
                                                 : nullptr;
    CellRow cells(columns);
    for (const auto& [column, attempt] : attempts) {
      (void)attempt;
      cells.Set(column, terminal.Paint(Style::kDim, "┊"));
    }
    for (size_t column = 0; column < columns; ++column) {
      const std::string dots = canvas.Cell(column, row);
      if (!dots.empty()) cells.Set(column, terminal.Paint(Style::kCyan, dots));
    }
    lines.push_back(absl::StrCat(PadLeft(label == nullptr ? "" : *label, margin),
                                 terminal.Paint(Style::kDim, label == nullptr ? " │" : " ┤"),
                                 cells.Text()));
  }

  std::string line;
  CellRow steps(columns);
  const std::vector<int64_t> ticks = TickSteps(extent, columns);
  for (size_t column = 0; column < columns; ++column) {
    const bool tick = std::any_of(ticks.begin(), ticks.end(),
                                  [&](int64_t step) { return cell_of(step) == column; });
    absl::StrAppend(&line, tick ? "┬" : "─");
  }
  for (const int64_t step : ticks) {
    const std::string text = absl::StrCat(step);
    const size_t centre = cell_of(step);
    const size_t column = centre < text.size() / 2 ? 0 : centre - text.size() / 2;
    steps.Put(std::min(column, columns - std::min(columns, text.size())), text);
  }
  lines.push_back(absl::StrCat(std::string(margin, ' '),
                               terminal.Paint(Style::kDim, absl::StrCat(" └", line))));
  lines.push_back(absl::StrCat(std::string(axis, ' '), steps.Text()));

  if (!attempts.empty()) {
    CellRow row(columns);
    row.Put(0, absl::StrCat("attempt ", plot.points.front().attempt));
    for (const auto& [column, attempt] : attempts) {
      if (!row.Put(column, absl::StrCat("attempt ", attempt)))
        row.Put(column, absl::StrCat(attempt));
    }
    lines.push_back(absl::StrCat(std::string(axis, ' '), row.Text()));
  }
  CellRow marks(columns);
  bool any = false;
  for (const PlotMark& mark : plot.marks) {
    if (mark.step < extent.first_step || mark.step > extent.last_step) continue;
    marks.Set(cell_of(mark.step), terminal.Paint(mark.style, "▲"));
    any = true;
  }
  if (any) lines.push_back(absl::StrCat(std::string(axis, ' '), marks.Text()));
  return lines;
}

}  // namespace foreshock::cli
