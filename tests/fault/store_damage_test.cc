// A medium that returns wrong bytes or too few: torn logs, and logs and tables with a flipped byte.
// Damage is reported and never read as data; everything else goes on.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/store_batches.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::fault {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

namespace fs = std::filesystem;

// Files of the directory with this extension, oldest first.
std::vector<fs::path> Files(const fs::path& directory, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void Flip(const fs::path& path, uint64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
  ASSERT_TRUE(file.good());
}

void Shorten(const fs::path& path, uint64_t bytes) {
  fs::resize_file(path, fs::file_size(path) - bytes);
}

class DamagedLogTest : public ::testing::Test {
 protected:
  store::StoreOptions Options() const { return {.directory = directory_.File("data")}; }
  fs::path KeptLogs() const { return fs::path(Options().directory) / "damaged_logs"; }

  // Opens an empty store, writes batches 1 to `last` and closes it; all of them are in the log.
  void WriteBatches(int64_t last) {
    fs::remove_all(Options().directory);
    AppendBatches(1, last);
  }
  void AppendBatches(int64_t first, int64_t last) {
    ASSERT_OK_AND_ASSIGN(const auto store, store::OpenStore(Options()));
    for (int64_t n = first; n <= last; ++n) ASSERT_OK(store->Write(NumberedBatch(n, 100)));
  }
  fs::path Log() const { return Files(Options().directory, ".log").back(); }

  // Opens the store, which must hold whole batches up to some number, and goes on writing. Returns
  // that number. `damage`: whether the store must have found damage.
  int64_t OpenAndGoOn(bool damage) {
    int64_t held = -1;
    {
      auto store = store::OpenStore(Options());
      EXPECT_OK(store);
      if (!store.ok()) return held;
      held = LastBatch(**store);
      EXPECT_EQ(CheckHoldsExactly(**store, held), "");
      EXPECT_EQ((*store)->Stats().damage_found > 0, damage);
      EXPECT_OK((*store)->Write(NumberedBatch(held + 1, 100)));
    }
    auto store = store::OpenStore(Options());
    EXPECT_OK(store);
    if (!store.ok()) return held;
    EXPECT_EQ(CheckHoldsExactly(**store, held + 1), "");
    EXPECT_EQ((*store)->Stats().damage_found, 0u) << "found again";
    return held;
  }

  support::TempDir directory_;
};

TEST_F(DamagedLogTest, ALogThatEndsWithinABatchIsWholeUpToThere) {
  constexpr int64_t kBatches = 12;
  WriteBatches(kBatches);
  const uint64_t bytes = fs::file_size(Log());
  WriteBatches(kBatches - 1);
  const uint64_t last_batch = bytes - fs::file_size(Log());
  for (const uint64_t cut : {uint64_t{1}, uint64_t{2}, last_batch / 2, last_batch - 1}) {
    SCOPED_TRACE(absl::StrCat(cut, " of ", last_batch, " bytes are missing"));
    WriteBatches(kBatches);
    Shorten(Log(), cut);
    EXPECT_EQ(OpenAndGoOn(/*damage=*/false), kBatches - 1);
    EXPECT_FALSE(fs::exists(KeptLogs()));
  }
}

TEST_F(DamagedLogTest, AFlippedByteIsSaidAndNothingBehindItIsTakenForWhole) {
  constexpr int64_t kBatches = 40;  // beyond a block of the log
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    WriteBatches(kBatches);
    const fs::path log = Log();
    const uint64_t offset =
        round == 0 ? fs::file_size(log) - 1 : random() % (fs::file_size(log) - 1);
    SCOPED_TRACE(absl::StrCat("byte ", offset, " of ", fs::file_size(log)));
    Flip(log, offset);
    EXPECT_LT(OpenAndGoOn(/*damage=*/true), kBatches);
    EXPECT_THAT(Files(KeptLogs(), ".log"), SizeIs(1)) << "the damaged log is kept";
  }
}

TEST_F(DamagedLogTest, AnOlderLogThatIsTooShortIsDamage) {
  constexpr int64_t kBatches = 5;
  WriteBatches(kBatches);
  AppendBatches(kBatches + 1, 2 * kBatches);
  const std::vector<fs::path> logs = Files(Options().directory, ".log");
  ASSERT_THAT(logs, SizeIs(testing::Ge(2)));
  // The last log before the newest that holds anything.
  const auto older = std::find_if(logs.rbegin() + 1, logs.rend(),
                                  [](const fs::path& path) { return fs::file_size(path) > 0; });
  ASSERT_NE(older, logs.rend());
  Shorten(*older, 3);
  EXPECT_EQ(OpenAndGoOn(/*damage=*/true), kBatches - 1);
}

// ---- Tables

constexpr int kSeries = 40;
constexpr int64_t kSteps = 200;

// The value that was written there: a different number in each place.
double ValueOf(int64_t unit, int64_t step) {
  const uint64_t mixed = static_cast<uint64_t>(unit * 1'000'003 + step) * 0x9E3779B97F4A7C15u;
  return static_cast<double>(mixed >> 44);
}

store::StoreBatch StepOf(const std::string& run, int64_t step) {
  store::StoreBatch batch;
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_first_step(0);
  attempt.set_last_step(step);
  batch.attempts.push_back({run, attempt});
  model::ClosedStep& closed = batch.steps.emplace_back();
  closed.run = run;
  closed.row.attempt = 1;
  closed.row.step = step;
  for (int i = 0; i < kSeries; ++i) {
    closed.samples.push_back(
        {{"attn.delta2.entropy", 0, model::Unit::kHead, i, ""}, ValueOf(i, step), 0});
  }
  return batch;
}

// Reads and checks all points of the run; returns how many there are.
absl::StatusOr<int64_t> ReadRun(const store::Store& store, const std::string& run) {
  const absl::StatusOr<std::vector<model::SeriesKey>> keys = store.Series(run, {});
  if (!keys.ok()) return keys.status();
  int64_t points = 0;
  std::string wrong;
  const absl::Status read = store.Points(run, *keys, {}, [&](size_t i, const model::Point& point) {
    if (point.value != ValueOf((*keys)[i].unit_id, point.step)) {
      wrong = absl::StrCat("unit ", (*keys)[i].unit_id, " step ", point.step, ": ", point.value);
    }
    ++points;
    return true;
  });
  if (!wrong.empty()) return absl::InternalError(absl::StrCat("a wrong value: ", wrong));
  if (!read.ok()) return read;
  return points;
}

class DamagedTableTest : public ::testing::Test {
 protected:
  store::StoreOptions Options() const {
    return {.directory = directory_.File("data"), .write_buffer_bytes = 64 << 10};
  }

  // Writes two runs, one after the other, into tables.
  void SetUp() override {
    constexpr size_t kTables = 3;
    {
      ASSERT_OK_AND_ASSIGN(const auto store, store::OpenStore(Options()));
      for (const std::string run : {"first", "second"}) {
        for (int64_t step = 0; step < kSteps; ++step) ASSERT_OK(store->Write(StepOf(run, step)));
        ASSERT_OK(store->Fold(run));
      }
      // Writes until earlier rows are in tables, which are written in the background.
      for (int64_t n = 1; n <= 40; ++n) ASSERT_OK(store->Write(NumberedBatch(n, 16 << 10)));
      const absl::Time deadline = absl::Now() + absl::Seconds(20);
      while (Files(Options().directory, ".sst").size() < kTables) {
        ASSERT_LT(absl::Now(), deadline) << "no tables are written";
        absl::SleepFor(absl::Milliseconds(10));
      }
    }
    ASSERT_THAT(Files(Options().directory, ".sst"), SizeIs(testing::Ge(kTables)));
    fs::copy(Options().directory, Whole());
  }
  std::string Whole() const { return directory_.File("whole"); }
  void Restore() {
    fs::remove_all(Options().directory);
    fs::copy(Whole(), Options().directory);
  }
  // Flips a byte that only reads of the first run's points need.
  bool DamageFirstRun() {
    for (const fs::path& table : Files(Whole(), ".sst")) {
      Restore();
      Flip(fs::path(Options().directory) / table.filename(), 20);
      const auto store = store::OpenStore(Options());
      if (store.ok() && absl::IsDataLoss(ReadRun(**store, "first").status()) &&
          ReadRun(**store, "second").ok()) {
        return true;
      }
    }
    return false;
  }

  support::TempDir directory_;
};

TEST_F(DamagedTableTest, WhatIsDamagedIsDataLossTheRestIsReadAndNothingIsWrong) {
  std::mt19937 random(11);
  int damaged = 0;
  int other_run_whole = 0;
  for (int round = 0; round < 20; ++round) {
    Restore();
    const std::vector<fs::path> tables = Files(Options().directory, ".sst");
    const fs::path table = tables[random() % tables.size()];
    const uint64_t offset = random() % fs::file_size(table);
    SCOPED_TRACE(absl::StrCat("byte ", offset, " of ", table.filename().string()));
    Flip(table, offset);
    auto store = store::OpenStore(Options());
    if (!store.ok()) {  // what every read needs
      EXPECT_THAT(store, support::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("store: ")));
      continue;
    }
    const absl::StatusOr<int64_t> first = ReadRun(**store, "first");
    const absl::StatusOr<int64_t> second = ReadRun(**store, "second");
    for (const auto* run : {&first, &second}) {
      if (run->ok()) {
        EXPECT_EQ(**run, kSeries * kSteps) << "points are missing and nothing was said";
      } else {
        EXPECT_THAT(*run, support::StatusIs(absl::StatusCode::kDataLoss,
                                            HasSubstr(table.filename().string())));
        EXPECT_GT((*store)->Stats().damage_found, 0u);
        ++damaged;
      }
    }
    if (first.ok() != second.ok()) ++other_run_whole;
    EXPECT_OK((*store)->Write(StepOf("third", 0)));
    EXPECT_TRUE((*store)->Stats().writable);
  }
  EXPECT_GT(damaged, 0);
  EXPECT_GT(other_run_whole, 0);
}

TEST_F(DamagedTableTest, ACompactionThatMeetsDamageDoesNotEndTheWriting) {
  ASSERT_TRUE(DamageFirstRun());
  ASSERT_OK_AND_ASSIGN(const auto store, store::OpenStore(Options()));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  int64_t step = kSteps;
  for (int64_t n = LastBatch(*store) + 1; store->Stats().damage_found == 0; ++n) {
    ASSERT_LT(absl::Now(), deadline) << "no compaction met the damage";
    for (const int64_t end = step + 20; step < end; ++step) {
      ASSERT_OK(store->Write(StepOf("second", step)));
    }
    ASSERT_OK(store->Fold("second"));
    ASSERT_OK(store->Write(NumberedBatch(n, 64 << 10)));  // fills the buffer, so tables are written
  }
  for (const int64_t end = step + 200; step < end; ++step) {
    ASSERT_OK(store->Write(StepOf("second", step)));
    ASSERT_TRUE(store->Stats().writable);
  }
  int64_t points = 0;
  const auto keys =
      std::vector<model::SeriesKey>{{"attn.delta2.entropy", 0, model::Unit::kHead, 0, ""}};
  EXPECT_OK(
      store->Points("second", keys, {.first = kSteps}, [&points](size_t, const model::Point&) {
        ++points;
        return true;
      }));
  EXPECT_EQ(points, step - kSteps) << "what was written since";
}

}  // namespace
}  // namespace foreshock::fault
