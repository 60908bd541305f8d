// Backups: each is of one moment, beside a writer, and whole or not there.
#include "daemon/store/backup.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/store/disk_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::store {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kChildVariable[] = "FORESHOCK_BACKUP_TEST_DIRECTORY";

StoreBatch OneStep(int64_t step) {
  StoreBatch batch;
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_first_step(0);
  attempt.set_last_step(step);
  batch.attempts.push_back({"r", attempt});
  model::ClosedStep closed;
  closed.run = "r";
  closed.row.attempt = 1;
  closed.row.step = step;
  for (int s = 0; s < 2; ++s) closed.samples.push_back({support::FilledSeries(s), 0.5, 0});
  batch.steps.push_back(closed);
  return batch;
}

// How many points each of the two series has; -1: they have different numbers.
int64_t StepsIn(const Store& store) {
  int64_t count[2] = {};
  EXPECT_OK(store.Points("r", {support::FilledSeries(0), support::FilledSeries(1)}, {},
                         [&](size_t series, const model::Point&) {
                           ++count[series];
                           return true;
                         }));
  return count[0] == count[1] ? count[0] : -1;
}

uint64_t FindingsIn(const std::string& directory) {
  const auto result = VerifyDirectory(directory, {});
  EXPECT_OK(result);
  return result.ok() ? result->findings : 1;
}

TEST(BackupTest, IsOfOneMomentBesideAWriter) {
  const support::TempDir directory;
  ASSERT_OK_AND_ASSIGN(const auto store, OpenDiskStore({.directory = directory.File("data")}));
  std::atomic<int64_t> written{0};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int64_t step = 0; !stop; ++step) {
      EXPECT_OK(store->Write(OneStep(step)));
      ++written;
    }
  });
  while (written < 50) absl::SleepFor(absl::Milliseconds(1));
  std::vector<BackupInfo> backups;
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  for (int i = 0; i < 3; ++i) {
    before.push_back(written);
    const auto info = store->Backup(directory.File("backup"));
    EXPECT_OK(info);
    if (info.ok()) backups.push_back(*info);
    after.push_back(written);
  }
  stop = true;
  writer.join();
  ASSERT_THAT(backups, SizeIs(3));
  EXPECT_EQ(backups[2].id, 3u);
  ASSERT_OK(RestoreBackup(directory.File("backup"), directory.File("restored")));
  EXPECT_EQ(FindingsIn(directory.File("restored")), 0u);
  ASSERT_OK_AND_ASSIGN(const auto restored,
                       OpenDiskStore({.directory = directory.File("restored")}));
  EXPECT_GE(StepsIn(*restored), before[2]);
  EXPECT_LE(StepsIn(*restored), after[2] + 1);
  // The restored store can be used like any other.
  ASSERT_OK(restored->Write(OneStep(1 << 20)));
}

TEST(BackupTest, RestoreRefusesWhatWouldBeLostAndWhatIsNotWhole) {
  const support::TempDir directory;
  {
    ASSERT_OK_AND_ASSIGN(const auto store, OpenDiskStore({.directory = directory.File("data")}));
    ASSERT_NO_FATAL_FAILURE(support::FillRun({.name = "r", .last_step = 900}, store.get()));
    ASSERT_OK(store->Backup(directory.File("backup")));
    EXPECT_THAT(store->Backup(directory.File("none/backup")),
                support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  }
  EXPECT_THAT(RestoreBackup(directory.File("backup"), directory.File("data")),
              support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not empty")));
  EXPECT_THAT(RestoreBackup(directory.File("nowhere"), directory.File("fresh")),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
  std::filesystem::create_directory(directory.File("empty"));
  EXPECT_FALSE(RestoreBackup(directory.File("empty"), directory.File("fresh")).ok());
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory.File("backup"))) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('x').put('y');
  }
  EXPECT_THAT(RestoreBackup(directory.File("backup"), directory.File("fresh")),
              support::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("backup")));
  EXPECT_FALSE(std::filesystem::exists(directory.File("fresh")));
}

// No test: the program that the next test kills. It makes backups for ever.
TEST(BackupChild, DISABLED_MakesBackups) {
  const char* directory = std::getenv(kChildVariable);
  if (directory == nullptr) GTEST_SKIP();
  const std::string data = absl::StrCat(directory, "/data");
  ASSERT_OK_AND_ASSIGN(const auto store, OpenDiskStore({.directory = data}));
  for (int64_t step = 0;; step += 1'000) {
    support::FillRun({.name = "r", .first_step = step, .last_step = step + 999}, store.get());
    ASSERT_OK(store->Backup(absl::StrCat(directory, "/backup")));
  }
}

TEST(BackupTest, OneThatIsKilledIsNoBackup) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const support::TempDir directory;
  const pid_t child = fork();
  if (child == 0) {
    setenv(kChildVariable, directory.path().c_str(), 1);
    execl("/proc/self/exe", "backup_child", "--gtest_filter=BackupChild.*",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  // The kill comes while it makes one of its first backups.
  const std::string meta = directory.File(absl::StrCat("backup/meta/", 1 + random() % 3));
  for (int i = 0; i < 20'000 && !std::filesystem::exists(meta); ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_TRUE(std::filesystem::exists(meta));
  absl::SleepFor(absl::Microseconds(random() % 30'000));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_OK(RestoreBackup(directory.File("backup"), directory.File("restored")));
  EXPECT_EQ(FindingsIn(directory.File("restored")), 0u);
  // The next backup cleans up and works.
  ASSERT_OK_AND_ASSIGN(const auto store, OpenDiskStore({.directory = directory.File("data")}));
  ASSERT_OK(store->Backup(directory.File("backup")));
}

}  // namespace
}  // namespace foreshock::store
