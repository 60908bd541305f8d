// Random runs into both stores: dense and sparse series, resumes that overlap, late re-merges,
// folds, reopens and deletions at random moments. Points, Steps and Buckets of random series,
// ranges, attempts and widths are the same.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::property {
namespace {

constexpr int kActions = 250;
constexpr int kSeries = 6;
const std::string kChunkRuns[] = {"x", "y"};

model::SeriesKey NthSeries(int n) {
  if (n == 0) return {"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""};
  if (n == 1) return {"tensor.nonfinite", 0, model::Unit::kTensor, 0, "w"};
  return {"attn.delta2.entropy", n, model::Unit::kHead, n, ""};
}

// A run as a trainer would make it, with what goes wrong.
class RunWriter {
 public:
  RunWriter(std::string name, std::mt19937* random) : name_(std::move(name)), random_(random) {}

  // Some steps of the newest attempt.
  store::StoreBatch More() {
    store::StoreBatch batch;
    if (attempt_ == 0 || Below(12) == 0) Resume();
    const int64_t stride = Below(6) == 0 ? 1 + Below(3000) : 1;
    for (uint32_t left = Below(5) == 0 ? 1 + Below(700) : 1 + Below(40); left > 0; --left) {
      AddStep(next_, &batch);
      next_ += stride;
    }
    model::AttemptRow row;
    row.set_number(attempt_);
    row.set_first_step(first_);
    row.set_last_step(next_ - stride);
    batch.attempts.push_back({name_, row});
    return batch;
  }

  // Steps of the past again, of any attempt, with other values and other series.
  store::StoreBatch Late() {
    store::StoreBatch batch;
    for (uint32_t left = 1 + Below(5); left > 0 && next_ > 0; --left) {
      AddStep(static_cast<int64_t>((*random_)() % static_cast<uint64_t>(next_)), &batch);
      batch.steps.back().row.attempt = 1 + Below(attempt_);
      batch.steps.back().row.late = true;
    }
    return batch;
  }

  void Forget() { attempt_ = 0; }
  int64_t next() const { return next_; }
  uint32_t attempt() const { return attempt_; }

 private:
  uint32_t Below(uint32_t bound) { return (*random_)() % bound; }

  void Resume() {
    ++attempt_;
    if (attempt_ == 1) next_ = Below(3) == 0 ? Below(1000) : 0;
    // Back to a checkpoint, or on with a hole.
    next_ = Below(4) == 0
                ? next_ + Below(500)
                : next_ - std::min<int64_t>(next_, Below(2) == 0 ? Below(60) : Below(1500));
    first_ = next_;
  }

  void AddStep(int64_t step, store::StoreBatch* batch) {
    model::ClosedStep closed;
    closed.run = name_;
    closed.row = {attempt_, step, 1'000'000 * step + Below(1000), Below(5000), 1 + Below(8)};
    for (int n = 0; n < kSeries; ++n) {
      // Series 3 comes every tenth step, 4 seldom, 5 in the first attempt only.
      if ((n == 3 && step % 10 != 0) || (n == 4 && Below(50) != 0) || (n == 5 && attempt_ != 1)) {
        continue;
      }
      closed.samples.push_back({NthSeries(n), Value(n), Below(20) == 0 ? Below(256) : 0});
    }
    if (Below(10) == 0) std::shuffle(closed.samples.begin(), closed.samples.end(), *random_);
    batch->steps.push_back(std::move(closed));
  }

  double Value(int n) {
    constexpr double kOdd[] = {0, -0.0, 1e-40, 1e300, -1e300, 16777217, 0.1, 1.7e308};
    if (Below(200) == 0) return kOdd[Below(std::size(kOdd))];
    if (n == 1) return Below(3);
    return 2 + std::sin(0.01 * static_cast<double>(next_)) + 0.001 * Below(1000);
  }

  const std::string name_;
  std::mt19937* const random_;
  uint32_t attempt_ = 0;
  int64_t first_ = 0;
  int64_t next_ = 0;
};

struct Read {
  std::vector<model::SeriesKey> series;
  store::StepRange range;
  int64_t bucket_steps;
};

using Points = std::vector<std::vector<model::Point>>;
using BucketsOf = std::vector<std::vector<store::Bucket>>;

Points PointsOf(const store::Store& store, const std::string& run, const Read& read) {
  Points points(read.series.size());
  EXPECT_OK(store.Points(run, read.series, read.range, [&](size_t i, const model::Point& point) {
    points[i].push_back(point);
    return true;
  }));
  return points;
}

std::vector<model::StepRow> StepsOf(const store::Store& store, const std::string& run,
                                    const Read& read) {
  std::vector<model::StepRow> steps;
  EXPECT_OK(store.Steps(run, read.range, [&](const model::StepRow& step) {
    steps.push_back(step);
    return true;
  }));
  return steps;
}

// With the means taken out: they are rounded in another order.
BucketsOf BucketsWithoutMean(const store::Store& store, const std::string& run, const Read& read,
                             std::vector<double>* means) {
  BucketsOf buckets(read.series.size());
  EXPECT_OK(store.Buckets(run, read.series, read.range, read.bucket_steps,
                          [&](size_t i, const store::Bucket& bucket) {
                            EXPECT_LE(bucket.min, bucket.mean);
                            EXPECT_LE(bucket.mean, bucket.max);
                            means->push_back(bucket.mean);
                            buckets[i].push_back(bucket);
                            buckets[i].back().mean = 0;
                            return true;
                          }));
  return buckets;
}

void Compare(const store::Store& rocks, const store::Store& memory, const std::string& run,
             const Read& read) {
  ASSERT_EQ(PointsOf(rocks, run, read), PointsOf(memory, run, read));
  ASSERT_EQ(StepsOf(rocks, run, read), StepsOf(memory, run, read));
  std::vector<double> means;
  std::vector<double> expected_means;
  const BucketsOf buckets = BucketsWithoutMean(rocks, run, read, &means);
  const BucketsOf expected = BucketsWithoutMean(memory, run, read, &expected_means);
  ASSERT_EQ(buckets, expected);
  size_t i = 0;
  for (const std::vector<store::Bucket>& of_series : buckets) {
    for (const store::Bucket& bucket : of_series) {
      // A sum of n values of size s, rounded to doubles in parts, is off by n s 2^-53 at most.
      const double size = std::max(std::fabs(bucket.min), std::fabs(bucket.max));
      ASSERT_NEAR(means[i], expected_means[i], static_cast<double>(bucket.count) * size * 0x1p-52);
      ++i;
    }
  }
}

unsigned ChunksSeed() {
  const char* given = std::getenv("FORESHOCK_TEST_SEED");
  unsigned seed = 0;
  if (given != nullptr && absl::SimpleAtoi(given, &seed)) return seed;
  return std::random_device()();
}

TEST(StoreChunksPropertyTest, ChunkedReadsAreThoseOfTheReference) {
  const unsigned seed = ChunksSeed();
  std::printf("seed %u (repeat with FORESHOCK_TEST_SEED)\n", seed);
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t bound) { return random() % bound; };
  support::TempDir directory;
  // Few open points: the store folds by itself too, beside what is done here.
  store::StoreOptions options{.directory = directory.File("data"), .write_buffer_bytes = 256 << 10};
  options.open_points = 100 + below(3000);
  ASSERT_OK_AND_ASSIGN(auto rocks, store::OpenStore(options));
  const auto memory = support::NewMemoryStore();
  std::map<std::string, RunWriter> writers;
  for (const std::string& run : kChunkRuns) writers.try_emplace(run, run, &random);

  for (int i = 0; i < kActions; ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, " action ", i));
    const std::string run = kChunkRuns[below(3) == 0 ? 1 : 0];
    RunWriter& writer = writers.at(run);
    const uint32_t action = below(30);
    if (action < 4 && writer.attempt() > 0) {
      ASSERT_OK(rocks->Fold(run));
    } else if (action == 4) {
      rocks.reset();
      ASSERT_OK_AND_ASSIGN(rocks, store::OpenStore(options));
    } else if (action == 5 && below(3) == 0 && writer.attempt() > 0) {
      ASSERT_OK(rocks->DeleteRun(run));
      ASSERT_OK(memory->DeleteRun(run));
      writer.Forget();
    } else {
      const bool late = action < 10 && writer.attempt() > 0;
      const store::StoreBatch batch = late ? writer.Late() : writer.More();
      ASSERT_OK(rocks->Write(batch));
      ASSERT_OK(memory->Write(batch));
    }
    if (writer.attempt() == 0 || i % 5 != 0) continue;
    Read read;
    for (uint32_t left = below(kSeries + 1); left > 0; --left) {
      read.series.push_back(NthSeries(static_cast<int>(below(kSeries + 1))));
    }
    if (below(2) == 0) {
      read.range.first = below(static_cast<uint32_t>(writer.next()) + 1);
      read.range.last = read.range.first + below(2000);
    }
    if (below(3) == 0) read.range.attempt = 1 + below(writer.attempt());
    read.bucket_steps = int64_t{1} << below(below(8) == 0 ? 63 : 14);
    ASSERT_NO_FATAL_FAILURE(Compare(*rocks, *memory, run, read));
  }
  Read all;
  for (int n = 0; n < kSeries; ++n) all.series.push_back(NthSeries(n));
  all.bucket_steps = 1024;
  for (const auto& [run, writer] : writers) {
    if (writer.attempt() == 0) continue;
    ASSERT_NO_FATAL_FAILURE(Compare(*rocks, *memory, run, all));
    ASSERT_OK(rocks->Fold(run));
    ASSERT_NO_FATAL_FAILURE(Compare(*rocks, *memory, run, all));
  }
  EXPECT_EQ(rocks->Stats().open_points, 0u);
  EXPECT_EQ(rocks->Stats().fold_failures, 0u);
}

}  // namespace
}  // namespace foreshock::property
