// Folds: when they happen, what they leave, and what a deletion meanwhile does to them.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/read_view.h"
#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const model::SeriesKey kDense{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""};
const model::SeriesKey kSparse{"router.token_entropy", 3, model::Unit::kNone, 0, ""};
constexpr int64_t kSparseEvery = 500;

// Steps first..last of attempt 1, the sparse series at every 500th.
StoreBatch DenseSteps(const std::string& run, int64_t first, int64_t last) {
  StoreBatch batch;
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_first_step(0);
  attempt.set_last_step(last);
  batch.attempts.push_back({run, attempt});
  for (int64_t step = first; step <= last; ++step) {
    model::ClosedStep closed;
    closed.run = run;
    closed.row.attempt = 1;
    closed.row.step = step;
    closed.samples.push_back({kDense, static_cast<double>(step), 0});
    if (step % kSparseEvery == 0) closed.samples.push_back({kSparse, 0.5, 0});
    batch.steps.push_back(std::move(closed));
  }
  return batch;
}

uint64_t CountPoints(const Store& store, const std::string& run) {
  uint64_t points = 0;
  EXPECT_OK(store.Points(run, {kDense, kSparse}, {}, [&points](size_t, const model::Point&) {
    ++points;
    return true;
  }));
  return points;
}

// Waits until another thread has made it true.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

class FoldTest : public ::testing::Test {
 protected:
  StoreOptions Options() const { return {.directory = directory_.File("data")}; }

  // Lists the chunks of a series in a closed store as "[first, last] rows".
  std::vector<std::string> Chunks(uint32_t series) {
    std::vector<std::string> chunks;
    auto database = Database::Open(Options(), nullptr, std::make_shared<DamageWatch>());
    EXPECT_OK(database);
    const ReadView view = ReadView::Of(**database);
    EXPECT_OK(view.ScanPrefix(
        Family::kChunks, "",
        [&](absl::string_view key, absl::string_view bytes) -> absl::StatusOr<bool> {
          ChunkId id;
          uint32_t count = 0;
          EXPECT_TRUE(DecodeChunkKey(key, &id));
          EXPECT_TRUE(DecodeChunkCount(bytes, &count));
          if (id.series == series) {
            chunks.push_back("[" + std::to_string(id.window.first) + ", " +
                             std::to_string(id.window.last()) + "] " + std::to_string(count));
          }
          return true;
        }));
    return chunks;
  }

  support::TempDir directory_;
};

TEST_F(FoldTest, DenseSeriesGetChunksOf1024StepsAndSparseOnesLongWindows) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
    // The steps come in pieces: an incomplete window is written again with the next piece.
    for (int64_t first = 0; first < 5000; first += 100) {
      ASSERT_OK(store->Write(DenseSteps("exp", first, first + 99)));
      ASSERT_OK(store->Fold("exp"));
    }
    EXPECT_EQ(store->Stats().open_points, 0u);
    EXPECT_EQ(store->Stats().points_folded, 5010u);
    EXPECT_EQ(CountPoints(*store, "exp"), 5010u);
  }
  // Steps up to 4999: [4608, 4863] is complete, [4864, 5119] is not.
  const auto dense =
      ElementsAre("[0, 1023] 1024", "[1024, 2047] 1024", "[2048, 3071] 1024", "[3072, 4095] 1024",
                  "[4096, 4607] 512", "[4608, 4863] 256", "[4864, 5119] 136");
  EXPECT_THAT(Chunks(0), dense);  // the step table
  EXPECT_THAT(Chunks(1), dense);
  EXPECT_THAT(Chunks(2), ElementsAre("[0, 4095] 9", "[4352, 4607] 1"));
}

TEST_F(FoldTest, ARunWithItsShareOfPointsIsFoldedByItself) {
  StoreOptions options = Options();
  options.open_points = 1000;
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(options));
  ASSERT_OK(store->Write(DenseSteps("exp", 0, 900)));
  EXPECT_EQ(store->Stats().open_points, 901u + 2);
  ASSERT_OK(store->Write(DenseSteps("exp", 901, 1200)));
  EXPECT_TRUE(Eventually([&] { return store->Stats().open_points < 1000; }));
  EXPECT_EQ(CountPoints(*store, "exp"), 1201u + 3);
}

TEST_F(FoldTest, AWriteBeyondFourTimesTheLimitReturnsWhenItIsFolded) {
  StoreOptions options = Options();
  options.open_points = 1000;
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(options));
  for (int64_t first = 0; first < 40'000; first += 4000) {
    ASSERT_OK(store->Write(DenseSteps("exp", first, first + 3999)));
    EXPECT_LT(store->Stats().open_points, 1000u);
  }
  EXPECT_EQ(CountPoints(*store, "exp"), 40'000u + 80);
}

TEST_F(FoldTest, AnIdleRunIsFolded) {
  StoreOptions options = Options();
  options.idle_fold = absl::Milliseconds(1);
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(options));
  ASSERT_OK(store->Write(DenseSteps("exp", 0, 9)));
  EXPECT_TRUE(Eventually([&] { return store->Stats().points_folded == 11; }));
}

TEST_F(FoldTest, OpenStepsAreCountedAgainAfterAReopen) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
    ASSERT_OK(store->Write(DenseSteps("exp", 0, 99)));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
  EXPECT_EQ(store->Stats().open_points, 101u);
  ASSERT_OK(store->Fold("exp"));
  EXPECT_EQ(store->Stats().open_points, 0u);
  EXPECT_EQ(CountPoints(*store, "exp"), 101u);
}

TEST_F(FoldTest, AStepThatIsWrittenAgainWinsBeforeAndAfterFolds) {
  ASSERT_OK_AND_ASSIGN(auto store, OpenStore(Options()));
  ASSERT_OK(store->Write(DenseSteps("exp", 0, 9)));
  ASSERT_OK(store->Fold("exp"));
  const auto value_at_5 = [&store] {
    double value = 0;
    EXPECT_OK(
        store->Points("exp", {kDense}, {.first = 5, .last = 5}, [&](size_t, const model::Point& p) {
          value = p.value;
          return true;
        }));
    return value;
  };
  for (const double value : {100.0, 200.0}) {
    StoreBatch late = DenseSteps("exp", 5, 5);
    late.attempts.clear();
    late.steps[0].samples[0].value = value;
    ASSERT_OK(store->Write(late));
    EXPECT_EQ(value_at_5(), value);
    if (value == 100) {  // and the head of 200 is newer than one that a reopen has seen
      store.reset();
      ASSERT_OK_AND_ASSIGN(store, OpenStore(Options()));
    }
  }
  ASSERT_OK(store->Fold("exp"));
  EXPECT_EQ(value_at_5(), 200);
  EXPECT_EQ(CountPoints(*store, "exp"), 11u);
}

TEST_F(FoldTest, IsRefusedReadOnlyAndForARunThatIsNotThere) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
    EXPECT_THAT(store->Fold("exp"),
                support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("no run")));
  }
  StoreOptions options = Options();
  options.read_only = true;
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(options));
  EXPECT_THAT(store->Fold("exp"), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                                    HasSubstr("for reading only")));
}

TEST_F(FoldTest, ACorruptChunkStopsTheFoldAndLosesNothingElse) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
    ASSERT_OK(store->Write(DenseSteps("exp", 0, 9)));
    ASSERT_OK(store->Fold("exp"));
  }
  const std::string key = ChunkKey({1, 1, 1, Window::Of(0, 8)});
  {
    ASSERT_OK_AND_ASSIGN(const auto database,
                         Database::Open(Options(), nullptr, std::make_shared<DamageWatch>()));
    ASSERT_TRUE(database->db()->Put({}, database->family(Family::kChunks), key, "damaged").ok());
  }
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
  ASSERT_OK(store->Write(DenseSteps("exp", 10, 19)));
  EXPECT_THAT(store->Fold("exp"),
              support::StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr("wrong checksum in family chunks"))));
  // Points outside that chunk can be read.
  std::vector<int64_t> steps;
  ASSERT_OK(store->Points("exp", {kSparse}, {}, [&steps](size_t, const model::Point& point) {
    steps.push_back(point.step);
    return true;
  }));
  EXPECT_THAT(steps, ElementsAre(0));
  EXPECT_EQ(store->Stats().open_points, 10u);
}

TEST_F(FoldTest, LooksOnlyAtTheSeriesThatItFolds) {
  constexpr int kManySeries = 80'000;  // more than one batch of a fold
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
  StoreBatch batch = DenseSteps("exp", 0, 0);
  batch.steps[0].samples.clear();
  for (uint32_t head = 0; head < kManySeries; ++head) {
    batch.steps[0].samples.push_back(
        {{"attn.delta.entropy", 0, model::Unit::kHead, head, ""}, 0.5, 0});
  }
  ASSERT_OK(store->Write(batch));
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  ASSERT_OK(store->Fold("exp"));
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  // Rows that the fold has written since its snapshot, and had to step over.
  EXPECT_LT(rocksdb::get_perf_context()->internal_recent_skipped_count, kManySeries);
  EXPECT_EQ(store->Stats().points_folded, uint64_t{kManySeries});
}

TEST_F(FoldTest, ADeletionBesideFoldsBringsNothingBack) {
  StoreOptions options = Options();
  options.open_points = 500;
  ASSERT_OK_AND_ASSIGN(auto store, OpenStore(options));
  std::atomic<bool> stop{false};
  std::thread folder([&] {
    while (!stop) {
      const absl::Status folded = store->Fold("exp");
      EXPECT_TRUE(folded.ok() || absl::IsNotFound(folded) || absl::IsAborted(folded)) << folded;
    }
  });
  for (int round = 0; round < 5; ++round) {
    ASSERT_OK(store->Write(DenseSteps("exp", 0, 3000)));
    ASSERT_OK(store->Write(DenseSteps("kept", 1000 * round, 1000 * round + 999)));
    ASSERT_OK(store->DeleteRun("exp"));
  }
  stop = true;
  folder.join();
  ASSERT_OK_AND_ASSIGN(const auto series, store->Series("kept", {}));
  EXPECT_EQ(series.size(), 2u);
  EXPECT_EQ(CountPoints(*store, "kept"), 5'000u + 10);
  ASSERT_OK(store->DeleteRun("kept"));
  store.reset();
  ASSERT_OK_AND_ASSIGN(const auto database,
                       Database::Open(Options(), nullptr, std::make_shared<DamageWatch>()));
  for (const Family family : {Family::kHeads, Family::kChunks}) {
    EXPECT_OK(ReadView::Of(*database).ScanPrefix(
        family, "", [](absl::string_view key, absl::string_view) -> absl::StatusOr<bool> {
          ADD_FAILURE() << "a row of a deleted run is there";
          return false;
        }));
  }
}

TEST_F(FoldTest, AReadSeesTheSameBesideFolds) {
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
  ASSERT_OK(store->Write(DenseSteps("exp", 0, 999)));
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::thread reader([&] {
    while (!stop) {
      EXPECT_EQ(CountPoints(*store, "exp"), 1002u);
      ++reads;
    }
  });
  for (int round = 0; round < 20; ++round) {
    ASSERT_OK(store->Fold("exp"));
    StoreBatch again = DenseSteps("exp", 0, 999);
    again.steps.erase(again.steps.begin(), again.steps.begin() + 50 * round);
    ASSERT_OK(store->Write(again));
  }
  EXPECT_TRUE(Eventually([&] { return reads > 0; }));
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace foreshock::store
