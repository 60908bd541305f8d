// Verification: a healthy store has no findings; a byte flipped anywhere is found.
#include "daemon/store/verify.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/disk_store.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/seal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_files.h"
#include "tests/support/temp_dir.h"

namespace foreshock::store {
namespace {

using store::Database;
using store::Family;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> Findings(const std::string& directory) {
  std::vector<std::string> findings;
  const auto result =
      VerifyDirectory(directory, {.finding = [&findings](const VerifyFinding& finding) {
                        findings.push_back(absl::StrCat(finding.family, "|", finding.file, "|",
                                                        finding.where, "|", finding.what));
                      }});
  EXPECT_OK(result);
  EXPECT_EQ(result.ok() ? result->findings : 0, findings.size());
  return findings;
}

class VerifyTest : public ::testing::Test {
 protected:
  // A store with every kind of row.
  VerifyTest() {
    random_.seed(seed_);
    auto opened = OpenDiskStore(Options());
    EXPECT_OK(opened);
    DiskStore* store = opened->get();
    support::FillRun(
        {.name = "exp-42", .last_step = 3'500, .series = 3, .last_time = support::kFilledNow},
        store);
    support::FillRun(
        {.name = "exp-43", .last_step = 700, .series = 2, .last_time = support::kFilledNow}, store);
    EXPECT_OK(store->Retain({.raw_steps = 1'000}, support::kFilledNow,
                            {.delete_run = [](const std::string&) { return absl::OkStatus(); },
                             .go_on = [] { return true; }}));
    opened->reset();
    support::IntoFiles(Options());
    opened = OpenDiskStore(Options());
    EXPECT_OK(opened);
    StoreBatch open;
    model::ClosedStep step;
    step.run = "exp-42";
    step.row.attempt = 1;
    step.row.step = 3'501;
    step.samples.push_back({support::FilledSeries(1), 0.5, 0});
    open.steps.push_back(step);
    model::ShardReport report;
    report.set_step(3'502);
    report.set_client_instance("c1");
    open.reports.push_back({"exp-42", 1, report});
    open.silences.emplace().add_silences()->set_id("s1");
    EXPECT_OK((*opened)->Write(open));
  }

  StoreOptions Options() const { return {.directory = directory_.File("data")}; }

  // Verifies a store that nobody else has open.
  std::unique_ptr<Database> Raw() const {
    auto database = Database::Open(Options(), nullptr, std::make_shared<DamageWatch>());
    EXPECT_OK(database);
    return *std::move(database);
  }

  struct RawRow {
    Family family;
    std::string key;
    std::string value;
  };
  std::vector<RawRow> Rows() const {
    std::vector<RawRow> rows;
    const auto database = Raw();
    for (const Family family : kAllFamilies) {
      const std::unique_ptr<rocksdb::Iterator> it(
          database->db()->NewIterator({}, database->family(family)));
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        rows.push_back({family, it->key().ToString(), it->value().ToString()});
      }
    }
    return rows;
  }

  void Put(Family family, const std::string& key, const std::string& value) const {
    const auto database = Raw();
    ASSERT_TRUE(database->db()->Put({}, database->family(family), key, value).ok());
  }
  void Delete(Family family, const std::string& key) const {
    const auto database = Raw();
    ASSERT_TRUE(database->db()->Delete({}, database->family(family), key).ok());
  }
  // Puts a row with its checksum, as the store would.
  void PutSealed(Family family, const std::string& key, std::string value) const {
    Seal(key, &value);
    Put(family, key, value);
  }

  size_t Below(size_t end) { return random_() % end; }

  const uint32_t seed_ = std::random_device()();
  std::mt19937 random_;
  support::TempDir directory_;
};

TEST_F(VerifyTest, AHealthyStoreHasNoFindings) {
  EXPECT_THAT(Findings(Options().directory), IsEmpty());
  // Also while it is open for writing.
  ASSERT_OK_AND_ASSIGN(const auto store, OpenDiskStore(Options()));
  EXPECT_THAT(Findings(Options().directory), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const VerifyResult result, store->Verify({}));
  EXPECT_EQ(result.findings, 0u);
  EXPECT_GT(result.files, 0u);
  EXPECT_GT(result.points, 4'000u);
  // A deleted run leaves no row; verify would report a row of an unknown run.
  ASSERT_OK(store->DeleteRun("exp-42"));
  EXPECT_THAT(Findings(Options().directory), IsEmpty());
}

TEST_F(VerifyTest, AByteFlippedInAnyKindOfRowIsFound) {
  SCOPED_TRACE(absl::StrCat("seed ", seed_));
  std::map<std::string, std::vector<RawRow>> kinds;
  for (const RawRow& row : Rows()) {
    const std::string kind = row.family == Family::kRows ? row.key.substr(4, 1)
                             : row.family == Family::kChunks
                                 ? absl::StrCat(static_cast<int>(KindOf(row.value)))
                                 : "";
    kinds[absl::StrCat(FamilyName(row.family), " ", kind)].push_back(row);
  }
  // default: A C D E F J K L Q R S; chunks: points, downsampled, steps.
  EXPECT_THAT(kinds, SizeIs(11 + 1 + 1 + 3));
  const auto flipped = [this](std::string value, size_t at) {
    value[at] = static_cast<char>(value[at] ^ (1 << Below(8)));
    return value;
  };
  for (const auto& [kind, rows] : kinds) {
    const RawRow& row = rows[Below(rows.size())];
    if (row.key == FormatKey()) continue;
    const size_t at = Below(row.value.size());
    SCOPED_TRACE(absl::StrCat(kind, ", byte ", at, " of ", row.value.size()));
    ASSERT_NO_FATAL_FAILURE(Put(row.family, row.key, flipped(row.value, at)));
    const std::vector<std::string> findings = Findings(Options().directory);
    EXPECT_THAT(findings, Not(IsEmpty()));
    EXPECT_THAT(findings, Contains(HasSubstr("its checksum is wrong")));
    ASSERT_NO_FATAL_FAILURE(Put(row.family, row.key, row.value));
  }
  // Without a format row it is refused as no store.
  const RawRow& format = kinds.at("default F").front();
  Put(format.family, format.key, flipped(format.value, Below(format.value.size())));
  const auto result = VerifyDirectory(Options().directory, {});
  EXPECT_TRUE(!result.ok() || result->findings > 0);
}

TEST_F(VerifyTest, AValueUnderAnotherKeyIsFound) {
  SCOPED_TRACE(absl::StrCat("seed ", seed_));
  const std::vector<RawRow> rows = Rows();
  const RawRow& row = rows[1 + Below(rows.size() - 1)];  // the first is the format's
  std::string key = row.key;
  const size_t at = Below(key.size());
  key[at] = static_cast<char>(key[at] ^ (1 << Below(8)));
  SCOPED_TRACE(absl::StrCat(FamilyName(row.family), ", byte ", at, " of the key"));
  ASSERT_NO_FATAL_FAILURE(Put(row.family, key, row.value));
  EXPECT_THAT(Findings(Options().directory), Contains(HasSubstr("checksum is wrong")));
}

TEST_F(VerifyTest, AByteFlippedInAnyTableFileIsFound) {
  SCOPED_TRACE(absl::StrCat("seed ", seed_));
  {
    // Puts all rows into files.
    const auto database = Raw();
    for (const Family family : kAllFamilies) {
      ASSERT_TRUE(database->db()->Flush({}, database->family(family)).ok());
    }
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(Options().directory)) {
    if (entry.path().extension() == ".sst") files.push_back(entry.path());
  }
  ASSERT_THAT(files, Not(IsEmpty()));
  for (const std::filesystem::path& path : files) {
    const uint64_t size = std::filesystem::file_size(path);
    // Flips bytes anywhere, and in the footer, which no block's checksum covers.
    for (const uint64_t at : {Below(size), size - 1 - Below(40)}) {
      SCOPED_TRACE(absl::StrCat(path.filename().string(), ", byte ", at, " of ", size));
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const char was = static_cast<char>(file.get());
      const auto put = [&](char byte) {
        file.seekp(static_cast<std::streamoff>(at));
        file.put(byte).flush();
      };
      put(static_cast<char>(was ^ (1 << Below(8))));
      EXPECT_THAT(Findings(Options().directory), Contains(HasSubstr(path.filename().string())));
      put(was);
    }
  }
  EXPECT_THAT(Findings(Options().directory), IsEmpty());
}

TEST_F(VerifyTest, RowsThatContradictOneAnotherAreNamed) {
  const ChunkPoint point{3'000, 0.5, 0};
  // Over what is there already, in another window.
  PutSealed(Family::kChunks, ChunkKey({1, 1, 1, Window::Of(0, 12)}),
            EncodeChunk(model::Storage::kF32, 0, {&point, 1}));
  // Beside its window, of a series and of an attempt that nobody knows.
  PutSealed(Family::kChunks, ChunkKey({2, 77, 1, Window::Of(0, 8)}),
            EncodeChunk(model::Storage::kF32, 0, {&point, 1}));
  PutSealed(Family::kChunks, ChunkKey({2, 1, 9, Window::Of(0, 8)}),
            EncodeChunk(model::Storage::kF32, 0, {&point, 1}));
  PutSealed(Family::kHeads, HeadKey({9, 1, 1}), "");
  model::AlertRow alert;
  alert.mutable_alert()->set_id("a");
  alert.mutable_alert()->set_run("gone");
  PutSealed(Family::kRows, AlertKey(2, "a"), alert.SerializeAsString());
  model::JudgingRow judging;
  judging.set_attempt(8);
  PutSealed(Family::kRows, JudgingKey(1), judging.SerializeAsString());
  PutSealed(Family::kRows, JudgingKey(2), "\xff");
  judging.set_attempt(1);
  PutSealed(Family::kRows, JudgingKey(2) + "x", judging.SerializeAsString());
  ASSERT_NO_FATAL_FAILURE(Delete(Family::kRows, RetentionKey(1, 1)));
  const std::vector<std::string> findings = Findings(Options().directory);
  EXPECT_THAT(findings, Contains(HasSubstr("overlaps the chunk")));
  EXPECT_THAT(findings, Contains(HasSubstr("run exp-43, series number 77, attempt 1, steps 0 to "
                                           "255")));
  EXPECT_THAT(findings, Contains(HasSubstr("points outside its window")));
  EXPECT_THAT(findings, Contains(HasSubstr("has no series of this number")));
  EXPECT_THAT(findings, Contains(HasSubstr("the run has no attempt 9")));
  EXPECT_THAT(findings, Contains(HasSubstr("no run row has this number")));
  EXPECT_THAT(findings, Contains(HasSubstr("is about the run 'gone'")));
  EXPECT_THAT(findings, Contains(HasSubstr("retention row knows nothing of it")));
  EXPECT_THAT(findings, Contains(AllOf(HasSubstr("run exp-42, judging row"),
                                       HasSubstr("the run has no attempt 8"))));
  EXPECT_THAT(findings, Contains(AllOf(HasSubstr("run exp-43, judging row"),
                                       HasSubstr("is no foreshock.model.JudgingRow"))));
  EXPECT_THAT(findings, Contains(AllOf(HasSubstr("run exp-43, judging row"),
                                       HasSubstr("belongs under another key"))));
}

TEST_F(VerifyTest, ItStopsWhenToldTo) {
  EXPECT_THAT(VerifyDirectory(Options().directory,
                              {.progress = [](const VerifyProgress&) { return false; }}),
              support::StatusIs(absl::StatusCode::kCancelled, HasSubstr("told to stop")));
  EXPECT_THAT(VerifyDirectory(directory_.File("nothing"), {}),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothing")));
}

}  // namespace
}  // namespace foreshock::store
