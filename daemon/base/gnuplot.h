// Pictures are drawn by gnuplot, which is needed for nothing else. A plot is a script in its
// language; what scripts have in common is here.
//
//   FORESHOCK_RETURN_IF_ERROR(CheckPlotFile("run.svg"));
//   return RunGnuplot(absl::StrCat(gnuplot::Output("run.svg", 1200, 400), "plot sin(x)\n"));
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace foreshock::base {

// Whether `file` ends in .svg or .png: InvalidArgument if not.
absl::Status CheckPlotFile(const std::string& file);

// Errors: FailedPrecondition, naming the package, when gnuplot is not installed; Internal with its
// first words when it fails (a file that cannot be written, for example).
absl::Status RunGnuplot(const std::string& script);

namespace gnuplot {

// Told apart by most people who do not see all colours (Okabe and Ito), without the two that mean
// warning and critical.
inline constexpr size_t kColoured = 6;
inline constexpr const char* kColours[kColoured] = {"#0072B2", "#009E73", "#CC79A7",
                                                    "#56B4E9", "#000000", "#8C6D31"};
inline constexpr size_t kPointsMax = 1500;  // of a curve

inline std::string Quote(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}, {"\n", " "}}), "'");
}

// The first lines of every script: the picture's file, whose ending is its format, and its size.
inline std::string Output(const std::string& file, int width, int height) {
  return absl::StrFormat(
      "set terminal %s size %d,%d noenhanced background '#ffffff' font 'sans,12'\nset output %s\n",
      absl::EndsWith(file, ".svg") ? "svg" : "pngcairo", width, height, Quote(file));
}

inline std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.7g", value) : "NaN";
}

// Least and greatest of every bin, in their order, where there are too many to see.
template <typename Point, typename ValueOf>
std::vector<Point> Thinned(const std::vector<Point>& points, const ValueOf& value_of) {
  if (points.size() <= kPointsMax) return points;
  std::vector<Point> kept;
  const size_t bins = kPointsMax / 2;
  for (size_t bin = 0; bin < bins; ++bin) {
    const size_t begin = bin * points.size() / bins;
    const size_t end = (bin + 1) * points.size() / bins;
    size_t low = begin;
    size_t high = begin;
    for (size_t i = begin; i < end; ++i) {
      if (value_of(points[i]) < value_of(points[low])) low = i;
      if (value_of(points[i]) > value_of(points[high])) high = i;
    }
    kept.push_back(points[std::min(low, high)]);
    if (low != high) kept.push_back(points[std::max(low, high)]);
  }
  return kept;
}

}  // namespace gnuplot
}  // namespace foreshock::base
