// Opening: which directories are refused, and how a corrupt store is reported.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"
#include "daemon/store/store.h"
#include "daemon/store/window.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "tests/support/raw_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const model::SeriesKey kLoss{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""};

class OpenTest : public ::testing::Test {
 protected:
  StoreOptions Options() const { return {.directory = directory_.File("data")}; }

  // Makes a store with a row of each kind, all of run id 1, series id 1.
  void Fill() {
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
    StoreBatch batch;
    batch.runs.emplace_back().set_name("exp");
    model::AttemptRow attempt;
    attempt.set_number(1);
    attempt.set_first_step(5);
    attempt.set_last_step(5);
    batch.attempts.push_back({"exp", attempt});
    batch.ranks.push_back({"exp", 1, {}});
    model::ShardReport report;
    report.set_step(5);
    batch.reports.push_back({"exp", 1, report});
    model::ClosedStep step;
    step.run = "exp";
    step.row.attempt = 1;
    step.row.step = 5;
    step.samples.push_back({kLoss, 2.5, 0});
    batch.steps.push_back(step);
    batch.alerts.push_back({"exp", {}});
    batch.events.push_back({"exp", {}});
    batch.coactivation.push_back({"exp", 1, {}});
    batch.judging.push_back({"exp", {}});
    ASSERT_OK(store->Write(batch));
  }

  // Puts a row with a right checksum, whatever its value is.
  void PutSealed(Family family, const std::string& key, std::string value) {
    Seal(key, &value);
    Put(family, key, value);
  }

  void Put(Family family, const std::string& key, const std::string& value) {
    ASSERT_OK_AND_ASSIGN(const auto database,
                         Database::Open(Options(), nullptr, std::make_shared<DamageWatch>()));
    ASSERT_TRUE(database->db()->Put({}, database->family(family), key, value).ok());
  }

  support::TempDir directory_;
};

bool Any(size_t, const model::Point&) { return true; }
bool AnyStep(const model::StepRow&) { return true; }

TEST_F(OpenTest, CreatesTheLastPartOfThePathOnly) {
  EXPECT_OK(OpenStore(Options()));
  EXPECT_THAT(OpenStore({.directory = directory_.File("no/such")}),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("cannot create")));
}

TEST_F(OpenTest, ReopensWhatItWrote) {
  Fill();
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
  int points = 0;
  ASSERT_OK(store->Points("exp", {kLoss}, {}, [&points](size_t, const model::Point& point) {
    EXPECT_EQ(point, (model::Point{1, 5, 2.5, 0}));
    ++points;
    return true;
  }));
  EXPECT_EQ(points, 1);
  EXPECT_EQ(store->Stats().series, 1u);
  EXPECT_GT(store->Stats().bytes, 0u);
  EXPECT_EQ(store->Stats().points_written, 0u);
}

TEST_F(OpenTest, RefusesADirectoryWithOtherFilesAndLeavesThemAlone) {
  std::filesystem::create_directory(Options().directory);
  const std::string file = Options().directory + "/thesis.tex";
  std::ofstream(file) << "text";
  EXPECT_THAT(OpenStore(Options()), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                                      AllOf(HasSubstr("is no Foreshock store"),
                                                            HasSubstr("thesis.tex"))));
  EXPECT_EQ(std::filesystem::file_size(file), 4u);
}

TEST_F(OpenTest, AcceptsWhatAKilledCreationAndAFileSystemLeave) {
  std::filesystem::create_directories(Options().directory + "/lost+found");
  std::ofstream(Options().directory + "/LOCK");
  std::ofstream(Options().directory + "/IDENTITY") << "x";
  EXPECT_OK(OpenStore(Options()));
}

TEST_F(OpenTest, RefusesAFileAndAPathUnderAFile) {
  std::ofstream(directory_.File("file")) << "text";
  EXPECT_THAT(
      OpenStore({.directory = directory_.File("file")}),
      support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not a directory")));
  EXPECT_THAT(OpenStore({.directory = directory_.File("file/data")}),
              support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("Not a directory")));
}

TEST_F(OpenTest, RefusesADirectoryItMayNotWriteIn) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere; see tests/fault/store_disk_test.cc";
  std::filesystem::create_directory(Options().directory);
  chmod(Options().directory.c_str(), 0500);
  EXPECT_THAT(OpenStore(Options()),
              support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("cannot write in")));
}

TEST_F(OpenTest, RefusesAnotherProgramsDatabase) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, Options().directory, &raw).ok());
  std::unique_ptr<rocksdb::DB> db(raw);
  ASSERT_TRUE(db->Put({}, "key", "value").ok());
  db.reset();
  EXPECT_THAT(OpenStore(Options()), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                                      HasSubstr("without a format row")));
}

TEST_F(OpenTest, RefusesADatabaseWithOtherFamilies) {
  {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, Options().directory, &raw).ok());
    const std::unique_ptr<rocksdb::DB> db(raw);
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(db->CreateColumnFamily({}, "theirs", &handle).ok());
    db->DestroyColumnFamilyHandle(handle);
  }
  EXPECT_THAT(OpenStore(Options()), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                                      HasSubstr("default, theirs")));
}

TEST_F(OpenTest, RefusesAnotherFormatWithAndWithoutOtherFamilies) {
  struct Case {
    uint32_t format;
    const char* family;  // that only this format has
    const char* message;
  };
  const Case cases[] = {
      {0, "points",
       "data has format 0; this program reads and writes format 2 only: use an older foreshockd, "
       "or give another directory"},
      {1, "points", "has format 1; this program reads and writes format 2 only: use an older"},
      {3, "news", "has format 3; this program reads and writes format 2 only: use a newer"},
  };
  StoreOptions read_only = Options();
  read_only.read_only = true;
  for (const Case& c : cases) {
    std::filesystem::remove_all(Options().directory);
    Fill();
    const std::string row = EncodeFormat(c.format);
    Put(Family::kRows, FormatKey(), row);
    const auto refused =
        support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(c.message));
    EXPECT_THAT(OpenStore(Options()), refused);
    EXPECT_THAT(OpenStore(read_only), refused);
    support::RawStore(Options().directory).Create(c.family);
    EXPECT_THAT(OpenStore(Options()), refused);
    EXPECT_THAT(OpenStore(read_only), refused);
    // A refusal leaves the store as it is.
    const support::RawStore raw(Options().directory, {c.family});
    EXPECT_EQ(raw.Get(raw.rows(), FormatKey()), row);
  }
}

TEST_F(OpenTest, RefusesASecondOpeningInOneProcess) {
  ASSERT_OK_AND_ASSIGN(const auto first, OpenStore(Options()));
  EXPECT_THAT(
      OpenStore(Options()),
      support::StatusIs(absl::StatusCode::kFailedPrecondition,
                        HasSubstr(absl::StrCat("already open in this process (", getpid(), ")"))));
  StoreBatch batch;
  batch.runs.emplace_back().set_name("exp");
  EXPECT_OK(first->Write(batch));
}

TEST_F(OpenTest, ReadOnlyCreatesNothingRefusesWritesAndReadsBesideAWriter) {
  StoreOptions read_only = Options();
  read_only.read_only = true;
  EXPECT_THAT(OpenStore(read_only),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("no store")));
  EXPECT_FALSE(std::filesystem::exists(Options().directory));

  Fill();
  ASSERT_OK_AND_ASSIGN(const auto writer, OpenStore(Options()));
  ASSERT_OK_AND_ASSIGN(const auto reader, OpenStore(read_only));
  EXPECT_OK(reader->Run("exp"));
  EXPECT_OK(reader->Points("exp", {kLoss}, {}, Any));
  EXPECT_FALSE(reader->Stats().writable);
  StoreBatch batch;
  batch.runs.emplace_back().set_name("other");
  EXPECT_THAT(reader->Write(batch), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                                      HasSubstr("for reading only")));
  EXPECT_THAT(reader->DeleteRun("exp"), support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                                          HasSubstr("for reading only")));
  EXPECT_OK(writer->Write(batch));
}

TEST_F(OpenTest, ADeletedRunGivesItsSpaceBack) {
  StoreOptions options = Options();
  options.write_buffer_bytes = 1 << 20;
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(options));
  uint64_t noise = 1;
  const auto fill = [&](const std::string& run, int reports) {
    for (int i = 0; i < reports; ++i) {
      model::ShardReport report;
      report.set_step(i);
      std::string* bytes = report.mutable_shards()->add_undefined()->mutable_reason();
      while (bytes->size() < (64 << 10)) {
        noise = noise * 6364136223846793005u + 1442695040888963407u;
        bytes->push_back(static_cast<char>(' ' + (noise >> 33) % 95));
      }
      StoreBatch batch;
      batch.reports.push_back({run, 1, report});
      ASSERT_OK(store->Write(batch));
    }
  };
  fill("kept", 2);
  fill("deleted", 128);
  const uint64_t before = store->Stats().bytes;
  ASSERT_OK(store->DeleteRun("deleted"));
  fill("kept", 1);  // the log of the deletion is kept until the next one begins
  EXPECT_GT(before, 128u * (32 << 10));
  EXPECT_LT(store->Stats().bytes, before / 8);
}

TEST_F(OpenTest, CorruptRowsAreDataLossThatNamesTheKey) {
  Fill();
  const std::string bad = "\xff\xff\xff";
  struct Case {
    Family family;
    std::string key;
    const char* what;
    absl::Status (*read)(const Store&);
  };
  const Case cases[] = {
      {Family::kHeads, HeadKey({1, 1, 99}), "corrupt head in family heads",
       [](const Store& store) { return store.Points("exp", {kLoss}, {.attempt = 1}, Any); }},
      {Family::kHeads, HeadKey({1, 1, 99}), "corrupt head in family heads",
       [](const Store& store) { return store.Steps("exp", {.attempt = 1}, AnyStep); }},
      {Family::kChunks, ChunkKey({1, 1, 2, Window::Of(5, 8)}), "corrupt chunk in family chunks",
       [](const Store& store) { return store.Points("exp", {kLoss}, {.attempt = 2}, Any); }},
      {Family::kChunks, ChunkKey({1, 0, 2, Window::Of(5, 8)}),
       "corrupt step chunk in family chunks",
       [](const Store& store) { return store.Steps("exp", {.attempt = 2}, AnyStep); }},
      {Family::kRows, AttemptKey(1, 1), "corrupt foreshock.model.AttemptRow",
       [](const Store& store) { return store.Attempts("exp").status(); }},
      {Family::kRows, RankKey(1, 1, 0, ""), "corrupt foreshock.model.RankRow",
       [](const Store& store) { return store.Ranks("exp", 1).status(); }},
      {Family::kRows, AlertKey(1, ""), "corrupt foreshock.model.AlertRow",
       [](const Store& store) { return store.Alerts("exp").status(); }},
      {Family::kRows, EventKey(1, 0, 0, 0, "", ""), "foreshock.model.EventRow",
       [](const Store& store) { return store.Events("exp").status(); }},
      {Family::kRows, CoactivationKey(1, 1, 0), "foreshock.model.CoactivationRow",
       [](const Store& store) { return store.Coactivation("exp", 1).status(); }},
      {Family::kRows, JudgingKey(1), "corrupt foreshock.model.JudgingRow",
       [](const Store& store) { return store.Judging("exp").status(); }},
      {Family::kOpen, ReportKey({1, 1, 5, 0, "", 0}),
       "corrupt foreshock.model.ShardReport in family open",
       [](const Store& store) {
         return store.OpenReports("exp", 1, [](const auto&) { return true; });
       }},
  };
  for (const Case& c : cases) {
    PutSealed(c.family, c.key, bad);
    {
      ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
      EXPECT_THAT(c.read(*store), support::StatusIs(absl::StatusCode::kDataLoss,
                                                    AllOf(HasSubstr(c.what),
                                                          HasSubstr(absl::BytesToHexString(c.key)),
                                                          HasSubstr("value of 3 bytes"))));
    }
    // The same row with a checksum that is wrong.
    Put(c.family, c.key, bad + "sums");
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
    EXPECT_THAT(
        c.read(*store),
        support::StatusIs(
            absl::StatusCode::kDataLoss,
            AllOf(HasSubstr(absl::StrCat("wrong checksum in family ", FamilyName(c.family))),
                  HasSubstr(absl::BytesToHexString(c.key)))));
  }
}

TEST_F(OpenTest, CorruptRunSeriesAndFormatRowsAreSaidOnOpening) {
  const std::pair<std::string, const char*> cases[] = {
      {RunKey("exp"), "wrong checksum"},
      {SeriesRowKey(1, kLoss), "wrong checksum"},
      {FormatKey(), "corrupt format row"},
  };
  for (const auto& [key, what] : cases) {
    std::filesystem::remove_all(Options().directory);
    Fill();
    Put(Family::kRows, key, "\xff");
    EXPECT_THAT(OpenStore(Options()),
                support::StatusIs(absl::StatusCode::kDataLoss,
                                  AllOf(HasSubstr(what), HasSubstr(absl::BytesToHexString(key)))));
  }
}

TEST_F(OpenTest, AFlippedByteInATableIsDataLoss) {
  Fill();
  {
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
    ASSERT_OK(store->Fold("exp"));
  }
  {
    ASSERT_OK_AND_ASSIGN(const auto database,
                         Database::Open(Options(), nullptr, std::make_shared<DamageWatch>()));
    for (const auto family : kAllFamilies) {
      ASSERT_TRUE(database->db()->Flush({}, database->family(family)).ok());
    }
  }
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(Options()));
  for (const auto& file : std::filesystem::directory_iterator(Options().directory)) {
    if (file.path().extension() != ".sst") continue;
    // A table begins with its data.
    std::fstream table(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    table.seekg(3);
    const char byte = static_cast<char>(table.get() ^ 0x40);
    table.seekp(3);
    table.put(byte);
  }
  EXPECT_THAT(store->Points("exp", {kLoss}, {.attempt = 1}, Any),
              support::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("Corruption")));
}

}  // namespace
}  // namespace foreshock::store
