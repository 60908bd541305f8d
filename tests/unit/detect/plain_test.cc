// Every detector against its plain form (plain.h), and two laws: the unit of a series does not
// matter, and a fall is a rise upside down.
#include "tests/unit/detect/plain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/archive.h"
#include "daemon/detect/best_so_far.h"
#include "daemon/detect/drift.h"
#include "daemon/detect/frozen.h"
#include "daemon/detect/level.h"
#include "daemon/detect/promise.h"
#include "daemon/detect/spike.h"

namespace foreshock::detect {
namespace {

// A row, and what happens before it.
struct Event {
  enum Kind { kRow, kResume, kReset } kind = kRow;
  int64_t step = 0;
  double value = 0;
};

struct Kind {
  int rows = 0;
  bool positive = true;  // else some values have no logarithm
  bool varies = false;   // no value equals the one before
};

// Random lives of a series around 2: quiet, noisy, growing, with jumps that stay, spikes, plateaus
// of equal values, and attempts that resume.
std::vector<Event> RandomSeries(std::mt19937_64* random, const Kind& kind) {
  std::normal_distribution<double> normal;
  const auto one_of = [random](uint64_t n) { return (*random)() % n == 0; };
  std::vector<Event> events;
  const double noises[] = {kind.varies ? 0.01 : 0, 0.003, 0.03, 0.2};
  double noise = noises[(*random)() % 4], level = 2, trend = 0, correlated = 0;
  const double inertia = one_of(2) ? 0 : 0.9;
  double last = level;
  int64_t step = static_cast<int64_t>((*random)() % 100);
  int quiet = 0;  // rows for which the value stays
  for (int row = 0; row < kind.rows; ++row) {
    step += 1 + static_cast<int64_t>(one_of(9) ? (*random)() % 3 : 0);
    if (one_of(150)) level *= std::exp(0.4 * normal(*random));
    if (one_of(150)) trend = one_of(2) ? 0 : 0.01 * normal(*random);
    if (one_of(200)) noise = noises[(*random)() % 4];
    if (one_of(200) && !kind.varies) quiet = static_cast<int>((*random)() % 40);
    if (one_of(300)) {
      step -= static_cast<int64_t>((*random)() % 40);
      events.push_back({Event::kResume, step, 0});
    }
    if (one_of(1000)) events.push_back({Event::kReset, step, 0});
    level = std::min(std::max(level * std::exp(trend), 1e-3), 1e6);
    correlated = inertia * correlated + std::sqrt(1 - inertia * inertia) * normal(*random);
    double value = level * std::exp(noise * correlated);
    if (one_of(60)) value *= std::exp(2 * normal(*random));
    if (quiet > 0) value = last;
    quiet = std::max(0, quiet - 1);
    last = value;
    if (!kind.positive && one_of(100)) value = one_of(2) ? 0 : -value;
    events.push_back({Event::kRow, step, value});
  }
  return events;
}

void ExpectNear(double value, double expected, const char* what) {
  ASSERT_NEAR(value, expected, 1e-9 * (1 + std::abs(expected))) << what;
}

template <typename Detector>
Change After(const Event& event, Detector* detector) {
  switch (event.kind) {
    case Event::kResume:
      detector->Resume(event.step);
      return {};
    case Event::kReset:
      detector->Reset();
      return {};
    case Event::kRow:
      return detector->Push(event.step, event.value);
  }
  return {};
}

// How often something was told.
template <typename Detector, typename Plain>
int ExpectAlike(Detector detector, Plain plain, const std::vector<Event>& events) {
  int told = 0;
  bool was = false;
  for (size_t i = 0; i < events.size(); ++i) {
    SCOPED_TRACE(i);
    const Change change = After(events[i], &detector), expected = After(events[i], &plain);
    EXPECT_EQ(change.known, expected.known);
    EXPECT_EQ(change.lasts, expected.lasts);
    EXPECT_EQ(change.before_step, expected.before_step);
    ExpectNear(change.before, expected.before, "before");
    ExpectNear(change.now, expected.now, "now");
    ExpectNear(change.limit, expected.limit, "limit");
    ExpectNear(change.noise, expected.noise, "noise");
    if (testing::Test::HasFailure()) return told;
    if (change.lasts && !was) ++told;
    was = change.lasts;
    if (i % 100 != 50) continue;
    base::Archive writer;  // a restart
    writer.Take(&detector);
    base::Archive reader(writer.bytes());
    detector.Reset();
    reader.Take(&detector);
    EXPECT_TRUE(reader.AtEnd());
  }
  return told;
}

class PlainTest : public testing::Test {
 protected:
  PlainTest() { trace_.emplace(__FILE__, __LINE__, "seed " + std::to_string(seed_)); }

  // What the detector of each of a few limits says of random series.
  template <typename Detector, typename Plain>
  void Compare(int series, bool logarithm, Kind kind) {
    int told = 0;
    for (int i = 0; i < series; ++i) {
      SCOPED_TRACE("series " + std::to_string(i));
      Limits limits{.side = i % 2 == 0 ? Side::kUp : Side::kDown,
                    .logarithm = logarithm && i % 4 < 2,
                    .size = i % 3 == 0 ? 0.05 : 0.2,
                    .noises = i % 5 == 0 ? 6.0 : 3.0};
      kind.positive = !limits.logarithm;
      told += ExpectAlike(Detector(limits), Plain(limits), RandomSeries(&random_, kind));
      if (HasFailure()) return;
    }
    EXPECT_GT(told, series / 4) << "or nothing was seen";
  }

  const uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  std::optional<testing::ScopedTrace> trace_;
};

TEST_F(PlainTest, Level) { Compare<Level, plain::Level>(60, true, {.rows = 700}); }
TEST_F(PlainTest, Spike) { Compare<Spike, plain::Spike>(60, true, {.rows = 500}); }
TEST_F(PlainTest, Drift) { Compare<Drift, plain::Drift>(60, true, {.rows = 1500}); }
// Means of equal values differ by their rounding, and so does which of them is the best.
TEST_F(PlainTest, BestSoFar) {
  Compare<BestSoFar, plain::BestSoFar>(24, false, {.rows = 1500, .varies = true});
}

TEST_F(PlainTest, Noise) {
  for (int series = 0; series < 10; ++series) {
    Noise noise;
    plain::Noise expected;
    EXPECT_EQ(noise.Widened(), 0);
    for (const Event& event : RandomSeries(&random_, {.rows = series == 0 ? 6000 : 300})) {
      noise.Add(event.value);
      expected.Add(event.value);
      ExpectNear(noise.Spread(), expected.Spread(), "spread");
      ExpectNear(noise.Widened(), expected.Widened(), "widened");
      ASSERT_EQ(noise.count(), expected.count());
    }
  }
}

TEST_F(PlainTest, Frozen) {
  int told = 0;
  for (int series = 0; series < 600; ++series) {
    const std::optional<double> at = series % 3 == 0 ? std::nullopt : std::optional(0.0);
    std::vector<Event> events;
    // How often a value repeats, how near it comes, and how long the plateaus are.
    const double share = 0.02 * static_cast<double>(random_() % 4);
    const int64_t rows = 5 + static_cast<int64_t>(random_() % 10);
    double value = 1, size = 1;
    for (int64_t step = 0; step < 400; ++step) {
      if (random_() % 300 == 0 && step > 0) events.push_back({Event::kResume, step, 0});
      if (random_() % 80 == 0) size *= random_() % 2 == 0 ? 0.1 : 5;
      if (random_() % 3 != 0) value = size * std::uniform_real_distribution<>(0.2, 9)(random_);
      if (static_cast<double>(random_() % 1000) < 1000 * share) value = 0;
      const uint64_t repeats = random_() % 60 == 0 ? random_() % 25 : 0;
      if (repeats > 0 && random_() % 2 == 0) value = 0;
      for (uint64_t n = 0; n <= repeats; ++n) events.push_back({Event::kRow, step++, value});
    }
    told += ExpectAlike(Frozen(rows, at), plain::Frozen(rows, at), events);
    if (HasFailure()) return;
  }
  EXPECT_GT(told, 100);
}

TEST_F(PlainTest, Promise) {
  int told = 0;
  for (int series = 0; series < 40; ++series) {
    const double level = series % 2 == 0 ? 30 : 3000;
    Promise promise(level);
    plain::Promise expected(level);
    ExpectNear(promise.p0(), expected.p0(), "p0");
    for (int block = 0; block < 200; ++block) {
      const uint64_t often = block / 50 % 2 == 0 ? 20 : 2;
      const bool held = random_() % often == 0;
      const bool page = promise.Push(held);
      ASSERT_EQ(page, expected.Push(held)) << block;
      ExpectNear(promise.p0(), expected.p0(), "p0");
      ExpectNear(promise.evidence(), expected.evidence(), "evidence");
      told += page ? 1 : 0;
    }
    promise.Reset();
    EXPECT_EQ(promise.evidence(), 0);
    ExpectNear(promise.p0(), plain::Promise(level).p0(), "p0");
  }
  EXPECT_GT(told, 40);
}

// ---- Laws.

template <typename Detector>
void ExpectTheUnitDoesNotMatter(const std::vector<Event>& events) {
  const Limits limits{.side = Side::kUp, .size = 0.1, .noises = 3};
  Detector one(limits), other(limits);
  for (size_t i = 0; i < events.size(); ++i) {
    Event scaled = events[i];
    scaled.value *= 1024;  // exact in floating point
    const Change a = After(events[i], &one), b = After(scaled, &other);
    ASSERT_EQ(a.lasts, b.lasts) << i;
    ASSERT_EQ(a.limit * 1024, b.limit) << i;
  }
}

template <typename Detector>
void ExpectAFallIsARiseUpsideDown(const std::vector<Event>& events) {
  const Limits rises{.side = Side::kUp, .size = 0.1, .noises = 3};
  Limits falls = rises;
  falls.side = Side::kDown;
  Detector one(rises), other(falls);
  for (size_t i = 0; i < events.size(); ++i) {
    Event mirrored = events[i];
    mirrored.value *= -1;
    const Change a = After(events[i], &one), b = After(mirrored, &other);
    ASSERT_EQ(a.lasts, b.lasts) << i;
    ASSERT_EQ(a.before_step, b.before_step) << i;
    ASSERT_EQ(-a.limit, b.limit) << i;
  }
}

TEST_F(PlainTest, TheUnitAndTheDirectionDoNotMatter) {
  for (int series = 0; series < 10; ++series) {
    SCOPED_TRACE("series " + std::to_string(series));
    const std::vector<Event> events = RandomSeries(&random_, {.rows = 600});
    ExpectTheUnitDoesNotMatter<Level>(events);
    ExpectTheUnitDoesNotMatter<Spike>(events);
    ExpectTheUnitDoesNotMatter<Drift>(events);
    ExpectTheUnitDoesNotMatter<BestSoFar>(events);
    // The local level's median is the upper of the middle two, so its detectors are left out.
    ExpectAFallIsARiseUpsideDown<Drift>(events);
    ExpectAFallIsARiseUpsideDown<BestSoFar>(events);
  }
}

}  // namespace
}  // namespace foreshock::detect
