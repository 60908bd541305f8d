// Stores of older formats, made of their rows, and what becomes of them.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/model/catalogue.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/read_view.h"
#include "daemon/store/rocks_store.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "tests/support/raw_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A database as format 0 had it.
class OldStore {
 public:
  explicit OldStore(const std::string& directory) {
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const char* name : {"default", "open", "points"}) {
      families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    }
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    rocksdb::DB* raw = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(options, directory, families, &handles_, &raw).ok());
    db_.reset(raw);
  }
  ~OldStore() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
  }

  void Put(const std::string& family, const std::string& key, const std::string& value) {
    const int index = family == "default" ? 0 : family == "open" ? 1 : 2;
    rocksdb::WriteOptions quick;
    quick.disableWAL = true;  // flushed on closing
    EXPECT_TRUE(db_->Put(quick, handles_[index], key, value).ok());
  }

  // The rows of the golden file.
  void PutGolden() {
    std::ifstream file(std::string(FORESHOCK_SOURCE_DIR) + "/tests/data/golden/store/format_0.txt");
    std::string line;
    int lines = 0;
    for (; std::getline(file, line); ++lines) {
      const std::vector<std::string> parts = absl::StrSplit(line, ' ');
      ASSERT_EQ(parts.size(), 3u) << line;
      Put(parts[0], absl::HexStringToBytes(parts[1]), absl::HexStringToBytes(parts[2]));
    }
    ASSERT_EQ(lines, 15);
  }

  void PutPoint(const store::PointId& id, double value) {
    std::string row;
    store::AppendPoint(store::StoredAs(Storage::kF32, value), value, 0, &row);
    Put("points", store::PointKey(id), row);
  }
  void PutStep(const store::StepId& id, const StepRow& row) {
    std::string bytes;
    store::AppendStep(row, &bytes);
    Put("default", store::StepKey(id), bytes);
  }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

class MigrateTest : public ::testing::Test {
 protected:
  StoreOptions Options() const { return {.directory = directory_.File("data")}; }

  // Of a store that can be opened; changes nothing in it.
  uint32_t Format() const {
    StoreOptions options = Options();
    options.read_only = true;
    const auto database =
        store::Database::Open(options, nullptr, std::make_shared<store::DamageWatch>());
    EXPECT_OK(database);
    std::string row;
    uint32_t format = 0;
    EXPECT_TRUE((*database)
                    ->db()
                    ->Get({}, (*database)->family(store::Family::kRows), store::FormatKey(), &row)
                    .ok());
    EXPECT_TRUE(store::DecodeFormat(row, &format));
    return format;
  }

  // Everything in the store as it is on disk.
  std::string Dump() {
    auto database =
        store::Database::Open(Options(), nullptr, std::make_shared<store::DamageWatch>());
    EXPECT_OK(database);
    std::string text;
    for (const store::Family family : store::kAllFamilies) {
      EXPECT_OK(store::ReadView::Of(**database)
                    .ScanPrefix(
                        family, store::RunPrefix(1),
                        [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                          absl::StrAppend(&text, store::FamilyName(family), " ",
                                          absl::BytesToHexString(std::string(key)), " ",
                                          absl::BytesToHexString(std::string(value)), "\n");
                          return true;
                        }));
    }
    return text;
  }

  TempDir directory_;
};

constexpr int64_t kManySteps = 20'000;  // more than are put into chunks at once

void PutManySteps(OldStore* old) {
  old->PutGolden();
  for (int64_t step = 2000; step < 2000 + kManySteps; ++step) {
    old->PutStep({1, 2, step}, {0, step, 17 * step, 4096, 8, false, false, step % 2 == 0});
    old->PutPoint({1, 1, 2, step}, 0.25 * static_cast<double>(step));
    if (step % 1000 == 0) old->PutPoint({1, 2, 2, step}, 1);
  }
  model::AttemptRow attempt;
  attempt.set_number(2);
  attempt.set_first_step(2000);
  attempt.set_last_step(1999 + kManySteps);
  old->Put("default", store::AttemptKey(1, 2), attempt.SerializeAsString());
}

TEST_F(MigrateTest, EveryRowOfFormat0ComesBack) {
  { OldStore(Options().directory).PutGolden(); }
  ASSERT_OK_AND_ASSIGN(auto store, OpenStore(Options()));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto run, store->Run("exp-42"));
    EXPECT_EQ(run.created_unix_ns(), 1'800'000'000'000'000'000);
    ASSERT_OK_AND_ASSIGN(const auto attempts, store->Attempts("exp-42"));
    EXPECT_EQ(attempts.size(), 1u);
    ASSERT_OK_AND_ASSIGN(const auto ranks, store->Ranks("exp-42", 1));
    EXPECT_EQ(ranks.size(), 1u);
    ASSERT_OK_AND_ASSIGN(const auto alerts, store->Alerts("exp-42"));
    EXPECT_EQ(alerts.size(), 1u);
    ASSERT_OK_AND_ASSIGN(const auto events, store->Events("exp-42"));
    EXPECT_EQ(events.size(), 1u);
    ASSERT_OK_AND_ASSIGN(const auto coactivation, store->Coactivation("exp-42", 1));
    EXPECT_EQ(coactivation.size(), 1u);
    EXPECT_EQ(store->Judging("exp-42").value(), std::nullopt);
    EXPECT_EQ(Format(), 2u);
    int reports = 0;
    ASSERT_OK(store->OpenReports("exp-42", 1, [&reports](const model::ShardReport&) {
      ++reports;
      return true;
    }));
    EXPECT_EQ(reports, 1);
    ASSERT_OK_AND_ASSIGN(const auto series, store->Series("exp-42", {}));
    std::vector<Point> points;
    ASSERT_OK(store->Points("exp-42", series, {}, [&points](size_t, const Point& point) {
      points.push_back(point);
      return true;
    }));
    EXPECT_THAT(points, ::testing::ElementsAre(Point{1, 1200, 1e300, kFlagPartial},
                                               Point{1, 1200, 3, kFlagEval | kFlagSampled},
                                               Point{1, 1200, 2.5, 0}));
    std::vector<StepRow> steps;
    ASSERT_OK(store->Steps("exp-42", {}, [&steps](const StepRow& row) {
      steps.push_back(row);
      return true;
    }));
    EXPECT_THAT(steps, ::testing::ElementsAre(StepRow{1, 1200, 1'800'000'060'000'000'000, 4'194'304,
                                                      8, false, true, false}));
    store.reset();
    ASSERT_OK_AND_ASSIGN(store, OpenStore(Options()));
  }
}

TEST_F(MigrateTest, ManyPointsBecomeChunksAsAFoldMakesThem) {
  {
    OldStore old(Options().directory);
    PutManySteps(&old);
  }
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
  int64_t expected = 2000;
  const SeriesKey loss{"train.loss", kNoLayer, Unit::kNone, 0, ""};
  ASSERT_OK(store->Points("exp-42", {loss}, {.attempt = 2}, [&](size_t, const Point& point) {
    EXPECT_EQ(point.step, expected);
    EXPECT_EQ(point.value, 0.25 * static_cast<double>(expected));
    ++expected;
    return true;
  }));
  EXPECT_EQ(expected, 2000 + kManySteps);
  expected = 2000;
  ASSERT_OK(store->Steps("exp-42", {.attempt = 2}, [&](const StepRow& row) {
    EXPECT_EQ(row, (StepRow{2, expected, 17 * expected, 4096, 8, false, false, expected % 2 == 0}));
    ++expected;
    return true;
  }));
  EXPECT_EQ(expected, 2000 + kManySteps);
}

// An environment in which the n-th write to a file and all after it fail, until it is healed.
class FailingFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FailingFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::atomic<int>* left)
      : FSWritableFileOwnerWrapper(std::move(file)), left_(left) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    if (left_->fetch_sub(1) > 0) return target()->Append(data, options, debug);
    return rocksdb::IOStatus::NoSpace("No space left on device");
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&,
                           rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }

 private:
  std::atomic<int>* const left_;
};

class FailingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FailingFileSystem(std::atomic<int>* left)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), left_(left) {}

  const char* Name() const override { return "FailingFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = target()->NewWritableFile(name, options, result, debug);
    if (status.ok()) *result = std::make_unique<FailingFile>(std::move(*result), left_);
    return status;
  }

 private:
  std::atomic<int>* const left_;
};

TEST_F(MigrateTest, InterruptedAnywhereItIsTakenUpAndEndsTheSame) {
  {
    OldStore old(Options().directory);
    PutManySteps(&old);
  }
  std::filesystem::copy(Options().directory, directory_.File("old"));
  ASSERT_OK(OpenStore(Options()).status());
  const std::string expected = Dump();

  std::filesystem::remove_all(Options().directory);
  std::filesystem::copy(directory_.File("old"), Options().directory);
  std::atomic<int> left{0};
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<FailingFileSystem>(&left));
  // Each try gets further than the one before.
  int tries = 0;
  for (bool done = false; !done; ++tries) {
    ASSERT_LT(tries, 200);
    left = 3 * tries;
    done = store::OpenRocksStore(Options(), env.get()).ok();
  }
  EXPECT_GT(tries, 5);
  EXPECT_EQ(Dump(), expected);
}

TEST_F(MigrateTest, IsRefusedReadOnlyAndSaysWhatToDo) {
  { OldStore(Options().directory).PutGolden(); }
  StoreOptions options = Options();
  options.read_only = true;
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("has format 0"), HasSubstr("let foreshockd open it once")));
  EXPECT_THAT(OpenStore(options), refused);
  EXPECT_OK(OpenStore(Options()));
  EXPECT_OK(OpenStore(options));
}

// What a program that knew no format 2 leaves when it is killed between the format row and the end.
TEST_F(MigrateTest, AFormat1ThatStillHasTheOldPointsIsReadAndBecomesFormat2) {
  { OldStore(Options().directory).PutGolden(); }
  ASSERT_OK(OpenStore(Options()).status());
  const std::string expected = Dump();
  {
    // Format 1, and the family `points` is there again.
    RawStore raw(Options().directory);
    raw.Put(raw.rows(), store::FormatKey(), store::EncodeFormat(1));
    // That it is not gone through again: this is no point.
    raw.Put(raw.Create("points"), "key", "value");
  }
  EXPECT_EQ(Format(), 1u);
  ASSERT_OK(OpenStore(Options()).status());
  EXPECT_EQ(Format(), 2u);
  EXPECT_EQ(Dump(), expected);
  std::vector<std::string> families;
  ASSERT_TRUE(
      rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), Options().directory, &families).ok());
  EXPECT_THAT(families, ::testing::ElementsAre("default", "open", "heads", "chunks"));
}

TEST_F(MigrateTest, ACorruptPointStopsItAndNamesTheKey) {
  {
    OldStore old(Options().directory);
    old.PutGolden();
    old.Put("points", store::PointKey({1, 3, 1, 77}), "\xff");
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(OpenStore(Options()),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("corrupt point in family points"),
                               HasSubstr(absl::BytesToHexString(store::PointKey({1, 3, 1, 77}))))));
  }
}

}  // namespace
}  // namespace foreshock
