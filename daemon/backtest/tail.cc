#include "daemon/backtest/tail.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace foreshock::backtest {
namespace {

constexpr size_t kPeaksWanted = 100;
constexpr int kResamples = 400;
constexpr double kShapeMax = 0.9;  // with 1 or more the mean excess would not exist

// Calls `visit(peak)` for every excursion.
template <typename Visit>
void ForEachExcursion(absl::Span<const ExcursionSeries> histories, double level,
                      const Visit& visit) {
  for (const ExcursionSeries& history : histories) {
    bool inside = false;
    double peak = 0;
    for (const Worst& worst : history) {
      if (worst.value > level) {
        peak = inside ? std::max<double>(peak, worst.value) : worst.value;
        inside = true;
      } else if (inside) {
        visit(peak);
        inside = false;
      }
    }
    if (inside) visit(peak);
  }
}

double Quantile(std::vector<double> values, double share) {
  const double rank = std::ceil(share * static_cast<double>(values.size())) - 1;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 0.0));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Knuth's product of uniforms, in the logarithm.
size_t PoissonDraw(double mean, std::mt19937_64* random) {
  double sum = 0;
  for (size_t count = 0;; ++count) {
    sum -= std::log((static_cast<double>((*random)() >> 11) + 1) * 0x1p-53);
    if (sum >= mean) return count;
  }
}

}  // namespace

size_t CountExcursions(absl::Span<const ExcursionSeries> histories, double level) {
  size_t count = 0;
  ForEachExcursion(histories, level, [&count](double) { ++count; });
  return count;
}

Excursions FindExcursions(absl::Span<const ExcursionSeries> histories) {
  Excursions best;
  std::vector<double> values;
  for (const ExcursionSeries& history : histories) {
    if (history.size() < 2) continue;
    best.steps += static_cast<double>(history.back().step - history.front().step);
    for (const Worst& worst : history) {
      if (std::isfinite(worst.value)) values.push_back(worst.value);
    }
  }
  if (values.empty()) return best;
  std::sort(values.begin(), values.end());
  // Shares of values above the threshold, from rare to half, by a factor.
  for (double share = 1.0 / static_cast<double>(values.size()); share < 0.5; share *= 1.25) {
    const size_t above = static_cast<size_t>(share * static_cast<double>(values.size()));
    const double level = values[values.size() - 1 - std::max<size_t>(above, 1)];
    std::vector<double> peaks;
    ForEachExcursion(histories, level, [&peaks](double peak) { peaks.push_back(peak); });
    if (peaks.size() > best.peaks.size()) {
      best.threshold = level;
      best.peaks = std::move(peaks);
    }
    if (best.peaks.size() >= kPeaksWanted) break;
  }
  return best;
}

double PoissonUpper(size_t count, double confidence) {
  const auto at_most_count = [count](double mean) {
    double sum = 0;
    for (size_t i = 0; i <= count; ++i) {
      const double k = static_cast<double>(i);
      sum += std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
    }
    return sum;
  };
  const double n = static_cast<double>(count);
  double low = std::max(n, 1e-9);
  double high = n + 10 + 10 * std::sqrt(n + 1);
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (at_most_count(middle) > 1 - confidence ? low : high) = middle;
  }
  return high;
}

double TailFit::Model::Rate(double excess) const {
  if (excess <= 0) return rate;
  if (scale <= 0) return 0;
  if (shape < 1e-6) return rate * std::exp(-excess / scale);
  return rate * std::pow(1 + shape * excess / scale, -1 / shape);
}

double TailFit::Model::Excess(double wanted) const {
  if (wanted >= rate) return 0;
  const double times = rate / wanted;
  return shape < 1e-6 ? scale * std::log(times) : scale / shape * (std::pow(times, shape) - 1);
}

// Probability-weighted moments (Hosking and Wallis 1987): good for few peaks.
TailFit::Model TailFit::Fit(std::vector<double> excesses, double steps) {
  Model model;
  const size_t n = excesses.size();
  model.rate = static_cast<double>(n) / steps;
  if (n == 0) return model;
  std::sort(excesses.begin(), excesses.end());
  double mean = 0;
  double weighted = 0;  // by the share of peaks above it
  for (size_t i = 0; i < n; ++i) {
    mean += excesses[i] / static_cast<double>(n);
    const double above = n > 1 ? static_cast<double>(n - 1 - i) / static_cast<double>(n - 1) : 0.5;
    weighted += excesses[i] * above / static_cast<double>(n);
  }
  model.scale = mean;
  if (n < 3 || mean <= 2 * weighted) return model;
  model.shape = 2 - mean / (mean - 2 * weighted);
  if (model.shape <= 0) {
    model.shape = 0;
    return model;
  }
  model.shape = std::min(model.shape, kShapeMax);
  model.scale = mean * (1 - model.shape);
  return model;
}

TailFit::TailFit(const Excursions& seen, double confidence)
    : threshold_(seen.threshold), confidence_(confidence) {
  if (seen.steps <= 0) return;
  for (const double peak : seen.peaks) peaks_.push_back(peak - seen.threshold);
  if (!usable()) return;
  model_ = Fit(peaks_, seen.steps);
  std::mt19937_64 random(20240607);
  std::vector<double> draw;
  for (int i = 0; i < kResamples; ++i) {
    const size_t n = std::max<size_t>(PoissonDraw(static_cast<double>(peaks_.size()), &random), 1);
    draw.clear();
    for (size_t j = 0; j < n; ++j) draw.push_back(peaks_[random() % peaks_.size()]);
    resampled_.push_back(Fit(draw, seen.steps));
  }
}

double TailFit::Rate(double limit) const { return model_.Rate(limit - threshold_); }

double TailFit::RateBound(double limit) const {
  std::vector<double> rates;
  for (const Model& model : resampled_) rates.push_back(model.Rate(limit - threshold_));
  return std::max(Quantile(std::move(rates), confidence_), Rate(limit));
}

double TailFit::LimitBound(double rate) const {
  std::vector<double> excesses;
  for (const Model& model : resampled_) excesses.push_back(model.Excess(rate));
  return threshold_ + std::max(Quantile(std::move(excesses), confidence_), model_.Excess(rate));
}

}  // namespace foreshock::backtest
