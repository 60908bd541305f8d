// The laws of detection on random series: docs/detection.md names them.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/detect/best_so_far.h"
#include "daemon/detect/drift.h"
#include "daemon/detect/level.h"
#include "daemon/detect/promise.h"

namespace foreshock::property {
namespace {

constexpr detect::Limits kLoss{
    .side = detect::Side::kUp, .logarithm = true, .size = 0.03, .noises = 3};
constexpr detect::Limits kWorse{.side = detect::Side::kUp, .size = 0.05, .noises = 6};

// Noise of about standard deviation 1 (a random walk: of a step), by name.
class Source {
 public:
  Source(const char* kind, uint64_t seed) : kind_(kind), random_(seed) {}

  double Next() {
    const double white = normal_(random_);
    if (kind_ == "white") return white;
    if (kind_ == "AR 0.9") return Ar(0.9, white);
    if (kind_ == "AR 0.95") return Ar(0.95, white);
    if (kind_ == "heavy tails") return student_(random_) / std::sqrt(3.0);
    walk_ += white;  // "random walk"
    return walk_;
  }

 private:
  double Ar(double a, double white) {
    walk_ = a * walk_ + std::sqrt(1 - a * a) * white;
    return walk_;
  }

  std::string kind_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::student_t_distribution<double> student_{3};
  double walk_ = 0;
};

constexpr const char* kKinds[] = {"white", "AR 0.9", "AR 0.95", "heavy tails", "random walk"};

// A healthy loss around 2: 2 % of noise, 0.1 % a step of a random walk.
double Healthy(const char* kind, Source* source) {
  const double scale = std::string_view(kind) == "random walk" ? 0.001 : 0.02;
  return 2 * std::exp(scale * source->Next());
}

// L1 and L3: a loss that doubles is told within ten rows, from the twelfth row on, whatever the
// noise and the unit.
TEST(DetectLaws, ADoubledLossIsToldFromTheTwelfthRowOn) {
  for (const char* kind : kKinds) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      for (const int onset : {12, 40, 300}) {
        for (const double unit : {1.0, 1e-4}) {
          Source source(kind, seed);
          detect::Level level(kLoss);
          std::optional<int> told;
          for (int row = 0; row < onset + 10 && !told.has_value(); ++row) {
            const double value = Healthy(kind, &source) * (row < onset ? 1 : 2) * unit;
            if (level.Push(row, value).lasts) told = row;
          }
          ASSERT_TRUE(told.has_value()) << kind << ", seed " << seed << ", onset " << onset;
          ASSERT_GE(*told, onset) << kind << ", seed " << seed;
        }
      }
    }
  }
}

// L2: while the loss stays lost it is told, however long, and by the level before the fault.
TEST(DetectLaws, WhatIsLostIsToldUntilItIsBack) {
  for (const char* kind : kKinds) {
    const uint64_t seed = 4;
    Source source(kind, seed);
    detect::Level level(kLoss);
    for (int row = 0; row < 500; ++row) level.Push(row, Healthy(kind, &source));
    double before = 0;
    for (int row = 500; row < 20'000; ++row) {
      const detect::Change change = level.Push(row, 3 * Healthy(kind, &source));
      if (row == 520) before = change.before;
      if (row >= 520) {
        ASSERT_TRUE(change.lasts) << kind << ", row " << row << ", seed " << seed;
        ASSERT_EQ(change.before, before) << kind << ", row " << row;
      }
    }
    detect::Change change;
    for (int row = 20'000; row < 30'000; ++row) {
      change = level.Push(row, before * std::exp(0.001 * (row % 3)));
    }
    EXPECT_FALSE(change.lasts) << kind;
  }
}

// L4: logged every step, every tenth and every hundredth, the same fault is told within four rows
// of its onset, or not at all.
TEST(DetectLaws, TheCadenceDoesNotMatter) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const int every : {1, 10, 100}) {
      Source source("AR 0.9", seed);
      detect::Level level(kLoss);
      std::vector<int> told;
      bool was = false;
      for (int step = 0; step < 60'000; ++step) {
        const double fault = step >= 40'000 ? 1.5 : 1;
        const double value = fault * Healthy("AR 0.9", &source);
        if (step % every != 0) continue;
        const bool now = level.Push(step, value).lasts;
        if (now && !was) told.push_back(step);
        was = now;
      }
      ASSERT_EQ(told.size(), 1u) << "every " << every << ", seed " << seed;
      EXPECT_GE(told[0], 40'000);
      EXPECT_LE(told[0], 40'000 + 4 * every) << "every " << every << ", seed " << seed;
    }
  }
}

// Healthy series are quiet: how often each detector tells something false in 10 000 rows. The rule
// of thumb "three rows in a row beyond three spreads of the first hundred rows" is the control: it
// must be seen to fail, or the test would see nothing.
TEST(DetectLaws, HealthyNoiseIsQuiet) {
  constexpr int kRows = 20'000, kSeries = 10;
  int control = 0;
  for (const char* kind : kKinds) {
    int levels = 0, bests = 0, drifts = 0;
    for (uint64_t seed = 1; seed <= kSeries; ++seed) {
      Source source(kind, seed);
      detect::Level level(kLoss);
      detect::BestSoFar best(kWorse);
      detect::Drift drift({.side = detect::Side::kUp, .logarithm = true, .size = 1});
      bool level_was = false, best_was = false, drift_was = false;
      double sum = 0, squares = 0;
      int in_a_row = 0;
      for (int row = 0; row < kRows; ++row) {
        const double value = Healthy(kind, &source);
        const auto count = [](bool now, bool* was, int* total) {
          if (now && !*was) ++*total;
          *was = now;
        };
        count(level.Push(row, value).lasts, &level_was, &levels);
        // A walk does become worse than its best: that is what it is told for.
        if (std::string_view(kind) != "random walk") {
          count(best.Push(row, value).lasts, &best_was, &bests);
        }
        count(drift.Push(row, value).lasts, &drift_was, &drifts);
        if (row < 100) {
          sum += value;
          squares += value * value;
          continue;
        }
        const double mean = sum / 100, spread = std::sqrt(squares / 100 - mean * mean);
        in_a_row = value > mean + 3 * spread ? in_a_row + 1 : 0;
        if (in_a_row == 3) ++control;
      }
    }
    const double per_10k = 10'000.0 / (kRows * kSeries);
    EXPECT_LE(levels * per_10k, 0.5) << kind << ": " << levels << " levels";
    EXPECT_LE(bests * per_10k, 1) << kind << ": " << bests << " bests";
    EXPECT_EQ(drifts, 0) << kind;
  }
  EXPECT_GT(control, 100) << "the control has to fail on these series";
}

// L10: at most one false page in the promised number of rows, with one, a hundred and a thousand
// series of which a rule pages on the mean evidence, on every kind of noise. A loss that is lost
// pages.
TEST(DetectLaws, PagesKeepTheirPromise) {
  constexpr int kBlock = 4;
  constexpr double kRowsPerPage = 100'000;
  for (const char* kind : kKinds) {
    for (const int series : {1, 100, 1000}) {
      const int rows = series == 1 ? 100'000 : series == 100 ? 4000 : 800;
      std::vector<Source> sources;
      std::vector<detect::Level> levels;
      std::vector<detect::Promise> promises;
      for (int i = 0; i < series; ++i) {
        sources.emplace_back(kind, 1000 + static_cast<uint64_t>(i));
        levels.emplace_back(kLoss);
        promises.emplace_back(kRowsPerPage / kBlock);
      }
      std::vector<bool> held(static_cast<size_t>(series));
      int pages = 0;
      bool was = false;
      for (int row = 0; row < rows; ++row) {
        double evidence = 0;
        for (size_t i = 0; i < levels.size(); ++i) {
          if (levels[i].Push(row, Healthy(kind, &sources[i])).lasts) held[i] = true;
          if (row % kBlock != kBlock - 1) continue;
          promises[i].Push(held[i]);
          held[i] = false;
          evidence += promises[i].evidence() / series;
        }
        if (row % kBlock != kBlock - 1) continue;
        const bool now = evidence >= kRowsPerPage / kBlock;
        pages += now && !was ? 1 : 0;
        was = now;
      }
      EXPECT_LE(pages, series == 1 ? 1 : 0) << kind << ", " << series << " series";
    }
  }
}

TEST(DetectLaws, ALostLossPagesWithinSixtyRows) {
  for (const char* kind : kKinds) {
    const uint64_t seed = 9;
    Source source(kind, seed);
    detect::Level level(kLoss);
    detect::Promise promise(25'000);
    bool held = false;
    std::optional<int> paged;
    for (int row = 0; row < 600 && !paged.has_value(); ++row) {
      held |= level.Push(row, Healthy(kind, &source) * (row < 500 ? 1 : 2)).lasts;
      if (row % 4 != 3) continue;
      if (promise.Push(held)) paged = row;
      held = false;
    }
    ASSERT_TRUE(paged.has_value()) << kind << ", seed " << seed;
    EXPECT_GE(*paged, 500) << kind;
    EXPECT_LE(*paged, 560) << kind;
  }
}

}  // namespace
}  // namespace foreshock::property
