#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/backtest/plot.h"
#include "daemon/base/gnuplot.h"

namespace foreshock::backtest {
namespace {

using base::gnuplot::kColoured;
using base::gnuplot::kColours;
using base::gnuplot::Number;
using base::gnuplot::Quote;
using base::gnuplot::Thinned;

constexpr size_t kTracedMax = 8;  // rules
constexpr size_t kPanelsMax = 3;  // of rules
constexpr size_t kRowsMax = 14;   // of the timeline
constexpr size_t kGreyMax = 60;   // curves of a panel, in grey behind the coloured ones
constexpr int kWidth = 1200;
constexpr int kLossHeight = 230;
constexpr int kPanelHeight = 200;
constexpr int kRowHeight = 22;
constexpr int kTop = 62;
constexpr int kBottom = 72;
constexpr int kGap = 28;  // between panels, for their titles

constexpr const char* kInfo = "#9BB8D3";
constexpr const char* kWarning = "#F0A30A";
constexpr const char* kCritical = "#D62728";

class Script {
 public:
  Script(const PlotInput& input, const std::string& file)
      : result_(*input.result), verdict_(*input.verdict), trace_(*input.trace) {
    PickPanels();
    PickRows();
    const auto [first, last] = std::minmax_element(result_.steps.begin(), result_.steps.end());
    first_ = result_.steps.empty() ? 0 : *first;
    last_ = result_.steps.empty() ? 1 : std::max(*last, first_ + 1);
    height_ = kTop + kLossHeight + static_cast<int>(panels_.size()) * (kPanelHeight + kGap) + kGap +
              RowsHeight() + kBottom;
    text_ = base::gnuplot::Output(file, kWidth, height_);
    absl::StrAppend(
        &text_, "set datafile missing 'NaN'\nset multiplot\n",
        "set lmargin at screen 0.16\nset rmargin at screen 0.975\n",
        "set tics nomirror out scale 0.5\nset border 3 lc rgb '#666666'\n",
        "set grid xtics ytics lc rgb '#e4e4e4' lt 1 lw 1\n",
        "set key at graph 0.995,0.98 right top horizontal samplen 1.5 font ',10' opaque\n");
    absl::StrAppendFormat(&text_, "set xrange [%d:%d]\n", first_, last_);
    absl::StrAppendFormat(&text_, "set label 1 %s at screen 0.16,%.5f left front font ',15'\n",
                          Quote(input.title), Screen(18));
  }

  std::string Write() {
    int top = kTop;
    WriteLoss(top);
    top += kLossHeight;
    for (const std::string& rule : panels_) {
      top += kGap;
      WritePanel(rule, top);
      top += kPanelHeight;
    }
    WriteTimeline(top + kGap);
    absl::StrAppend(&text_, "unset multiplot\nset output\n");
    return std::move(text_);
  }

 private:
  // Rules with curves.
  void PickPanels() {
    for (const RunTrace::Curve& curve : trace_.curves) {
      const bool there = std::find(panels_.begin(), panels_.end(), curve.rule) != panels_.end();
      if (!there && panels_.size() < kPanelsMax) panels_.push_back(curve.rule);
    }
  }

  // Signatures first: they are what people are told.
  void PickRows() {
    for (const bool signatures : {true, false}) {
      for (const RuleOutcome& outcome : verdict_.outcomes) {
        if (outcome.signature == signatures) rows_.push_back(outcome.rule);
      }
    }
    if (rows_.size() > kRowsMax) rows_.resize(kRowsMax);
  }

  int RowsHeight() const {
    return kRowHeight * static_cast<int>(std::max<size_t>(rows_.size(), 1));
  }

  double Screen(int from_top) const { return 1.0 - static_cast<double>(from_top) / height_; }

  void BeginPanel(int top, int height, const std::string& title, bool x_labels) {
    absl::StrAppendFormat(&text_, "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
                          Screen(top), Screen(top + height));
    absl::StrAppend(
        &text_, "unset object\nunset arrow\nunset logscale y\nset autoscale y\n",
        x_labels ? "set format x '%.0f'\nset xlabel 'step'\n" : "set format x ''\nunset xlabel\n");
    absl::StrAppendFormat(
        &text_, "set label 2 %s at graph 0,1.0 offset 0,0.6 left front font ',11'\n", Quote(title));
    const auto mark = [this](std::optional<int64_t> step, const char* colour, int dash) {
      if (!step.has_value()) return;
      absl::StrAppendFormat(
          &text_,
          "set arrow from first %d,graph 0 to first %d,graph 1 nohead front lw 1.5 "
          "dt %d lc rgb '%s'\n",
          *step, *step, dash, colour);
    };
    mark(verdict_.injection_step, "#555555", 2);
    mark(verdict_.loss_break_step, "#7B1FA2", 1);
  }

  // A band over the height of the panel.
  void Shade(int64_t from, int64_t to, const char* colour, double strength) {
    absl::StrAppendFormat(&text_,
                          "set object rectangle from first %d,graph 0 to first %d,graph 1 behind "
                          "fc rgb '%s' fs solid %.2f noborder\n",
                          from, std::max(to, from + 1), colour, strength);
  }

  int64_t EndOf(const AlertSpan& span) const {
    return span.last.has_resolved_step() ? span.last.resolved_step() : last_;
  }

  template <typename Point, typename ValueOf>
  void Data(const std::string& name, const std::vector<Point>& points, const ValueOf& value_of) {
    absl::StrAppend(&text_, "$", name, " << EOD\n");
    int64_t before = std::numeric_limits<int64_t>::min();
    for (const Point& point : points) {
      if (point.step <= before) absl::StrAppend(&text_, "\n");  // a resume: no line back
      before = point.step;
      absl::StrAppend(&text_, point.step, " ", Number(value_of(point)), "\n");
    }
    absl::StrAppend(&text_, "EOD\n");
  }

  void WriteLoss(int top) {
    std::vector<rules::LossSample> smooth;
    double average = std::numeric_limits<double>::quiet_NaN();
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    bool nonfinite = false;
    for (const rules::LossSample& sample : trace_.losses) {
      if (!std::isfinite(sample.loss)) {
        nonfinite = true;
        smooth.push_back({sample.step, sample.loss});
        continue;
      }
      average = std::isfinite(average) ? 0.96 * average + 0.04 * sample.loss : sample.loss;
      smooth.push_back({sample.step, average});
      low = std::min(low, sample.loss);
      high = std::max(high, average);
    }
    std::string title =
        smooth.empty() ? "loss: the run has none" : "loss, and its exponential average (0.96)";
    if (nonfinite) absl::StrAppend(&title, "; red ticks: not finite");
    BeginPanel(top, kLossHeight, title, false);
    for (const AlertSpan& span : result_.alerts) {
      if (!span.warning.has_value()) continue;
      const int64_t grave = span.critical.has_value() ? span.critical->step : EndOf(span);
      Shade(span.warning->step, grave, kWarning, 0.16);
      if (span.critical.has_value()) Shade(grave, EndOf(span), kCritical, 0.13);
    }
    const auto loss_of = [](const rules::LossSample& sample) { return sample.loss; };
    Data("loss", Thinned(trace_.losses, loss_of), loss_of);
    Data("average", Thinned(smooth, loss_of), loss_of);
    std::vector<rules::LossSample> ticks;
    for (const rules::LossSample& sample : trace_.losses) {
      if (!std::isfinite(sample.loss)) ticks.push_back({sample.step, 1});
    }
    if (low < high) {
      const double room = 0.08 * (high - low);
      absl::StrAppend(&text_, "set yrange [", Number(low - room), ":", Number(high + 2 * room),
                      "]\n");
      for (rules::LossSample& tick : ticks) tick.loss = low - 0.5 * room;
    } else {
      absl::StrAppend(&text_, "set yrange [0:2]\n");
    }
    Label(3, 0.94, verdict_.injection_step, "fault injected", "#555555");
    Label(4, 0.86, verdict_.loss_break_step, "loss breaks", "#7B1FA2");
    if (verdict_.first_warning.has_value()) {
      const AlertSpan& span = result_.alerts[*verdict_.first_warning];
      Label(5, 0.78, span.warning->step,
            absl::StrCat("first warning: ",
                         span.first.fault().empty() ? span.first.rule() : span.first.fault()),
            "#B36B00");
    }
    Data("ticks", Thinned(ticks, loss_of), loss_of);
    absl::StrAppend(
        &text_, "plot $loss with lines lw 1 lc rgb '#B8C4CE' notitle, ",
        "$average with lines lw 2 lc rgb '#1F3A57' notitle",
        ticks.empty() ? "" : ", $ticks with points pt 2 ps 0.4 lc rgb '#D62728' notitle",
        "\nunset label 3\nunset label 4\nunset label 5\nunset label 1\n");
  }

  void Label(int tag, double height, std::optional<int64_t> step, const std::string& text,
             const char* colour) {
    if (!step.has_value()) return;
    const bool left = *step > first_ + (last_ - first_) * 3 / 4;
    absl::StrAppendFormat(&text_,
                          "set label %d %s at first %d,graph %.2f %s offset %s,0 front tc rgb '%s' "
                          "font ',10'\n",
                          tag, Quote(text), *step, height, left ? "right" : "left",
                          left ? "-0.6" : "0.6", colour);
  }

  void WritePanel(const std::string& rule, int top) {
    std::vector<const RunTrace::Curve*> curves;
    for (const RunTrace::Curve& curve : trace_.curves) {
      if (curve.rule == rule) curves.push_back(&curve);
    }
    BringForward(rule, &curves);
    const auto own = [&rule](const AlertSpan& span) { return span.first.rule() == rule; };
    const std::string title =
        absl::StrCat(rule, ": ", curves.front()->measure, "  (dashed: baseline, dotted: limit)");
    BeginPanel(top, kPanelHeight, title, false);
    for (const AlertSpan& span : result_.alerts) {
      if (own(span)) Shade(span.fired.step, EndOf(span), kInfo, 0.35);
    }
    std::vector<std::string> plots;
    const size_t coloured = std::min(curves.size(), kColoured);
    // What is drawn last lies on top; the key has the order of drawing.
    const size_t shown = std::min(curves.size(), kColoured + kGreyMax);
    for (size_t n = 0; n < shown; ++n) {
      const size_t i = (n + coloured) % shown;
      const RunTrace::Curve& curve = *curves[i];
      const std::string name = absl::StrCat("curve", i);
      const auto value = [](const RunTrace::Point& point) { return point.value; };
      const std::vector<RunTrace::Point> points = Thinned(curve.points, value);
      Data(name, points, value);
      if (i >= coloured) {
        plots.push_back(absl::StrCat("$", name, " with lines lw 1 lc rgb '#DDDDDD' notitle"));
        continue;
      }
      const auto nan = std::numeric_limits<double>::quiet_NaN();
      Data(name + "b", points,
           [nan](const RunTrace::Point& point) { return point.baseline.value_or(nan); });
      Data(name + "l", points,
           [nan](const RunTrace::Point& point) { return point.limit.value_or(nan); });
      const auto line = [&](const char* suffix, const char* style, const std::string& key) {
        plots.push_back(absl::StrFormat("$%s%s with lines %s lc rgb '%s' %s", name, suffix, style,
                                        kColours[i], key));
      };
      line("b", "lw 1 dt 2", "notitle");
      line("l", "lw 1 dt 3", "notitle");
      line("", "lw 1.6",
           absl::StrCat("title ", Quote(curve.series.empty() ? "whole run" : curve.series)));
    }
    absl::StrAppend(&text_, "set offsets graph 0,0,graph 0.18,graph 0.03\nplot ");
    for (size_t i = 0; i < plots.size(); ++i) absl::StrAppend(&text_, i > 0 ? ", " : "", plots[i]);
    absl::StrAppend(&text_, "\nunset offsets\n");
  }

  // Curves of the layers in which the rule fired come first where there are too many.
  void BringForward(const std::string& rule, std::vector<const RunTrace::Curve*>* curves) const {
    if (curves->size() <= kColoured) return;
    absl::flat_hash_set<std::string> layers;
    for (const AlertSpan& span : result_.alerts) {
      if (span.first.rule() != rule) continue;
      for (const uint32_t layer : span.first.layers()) layers.insert(absl::StrCat("layer ", layer));
    }
    std::stable_partition(curves->begin(), curves->end(), [&layers](const RunTrace::Curve* curve) {
      return layers.contains(curve->series.substr(0, curve->series.find(',')));
    });
  }

  void WriteTimeline(int top) {
    BeginPanel(
        top, RowsHeight(),
        rows_.empty() ? "alerts: none" : "alerts (blue: info, amber: warning, red: critical)",
        true);
    absl::StrAppendFormat(&text_, "set yrange [%d:0]\nset ytics (",
                          std::max<size_t>(rows_.size(), 1));
    for (size_t i = 0; i < rows_.size(); ++i) {
      absl::StrAppendFormat(&text_, "%s%s %.1f", i > 0 ? ", " : "", Quote(rows_[i]), i + 0.5);
    }
    absl::StrAppend(&text_, rows_.empty() ? "'' 0" : "", ") font ',10'\n");
    const auto bar = [this](size_t row, int64_t from, int64_t to, const char* colour) {
      absl::StrAppendFormat(&text_,
                            "set object rectangle from first %d,first %.2f to first %d,first %.2f "
                            "front fc rgb '%s' fs solid 1 noborder\n",
                            from, row + 0.18, std::max(to, from + (last_ - first_) / 400 + 1),
                            row + 0.82, colour);
    };
    for (const AlertSpan& span : result_.alerts) {
      const auto found = std::find(rows_.begin(), rows_.end(), span.first.rule());
      if (found == rows_.end()) continue;
      const size_t row = found - rows_.begin();
      bar(row, span.fired.step, EndOf(span), kInfo);
      if (span.warning.has_value()) bar(row, span.warning->step, EndOf(span), kWarning);
      if (span.critical.has_value()) bar(row, span.critical->step, EndOf(span), kCritical);
    }
    absl::StrAppend(&text_, "plot NaN notitle\n");
  }

  const RunResult& result_;
  const RunVerdict& verdict_;
  const RunTrace& trace_;
  std::vector<std::string> panels_;
  std::vector<std::string> rows_;
  int64_t first_ = 0;
  int64_t last_ = 1;
  int height_ = 0;
  std::string text_;
};

}  // namespace

std::vector<std::string> RulesToTrace(const rules::RuleSet& rules, const RunResult& result,
                                      const RunVerdict& verdict) {
  // One rule per indicator is enough to see it.
  absl::flat_hash_map<std::string, std::string> indicator_of;
  for (const v1::RuleInfo& info : rules.infos()) indicator_of[info.name()] = info.indicator();
  std::vector<std::string> picked;
  absl::flat_hash_set<std::string> indicators;
  const auto pick = [&](const std::string& rule) {
    const std::string& indicator = indicator_of[rule];
    if (indicator.empty() || picked.size() >= kTracedMax) return;
    if (indicators.insert(indicator).second) picked.push_back(rule);
  };
  if (verdict.first_warning.has_value()) {
    const v1::Alert& warning = result.alerts[*verdict.first_warning].last;
    pick(warning.rule());
    for (const v1::Evidence& evidence : warning.evidence()) {
      if (evidence.supports()) pick(evidence.rule());
    }
  }
  for (const RuleOutcome& outcome : verdict.outcomes) pick(outcome.rule);
  for (const v1::RuleInfo& info : rules.infos()) pick(info.name());
  return picked;
}

std::string PlotScript(const PlotInput& input, const std::string& file) {
  return Script(input, file).Write();
}

}  // namespace foreshock::backtest
