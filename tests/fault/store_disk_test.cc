// A disk that is full, read-only or forbidden. The small disk is a tmpfs mount, which needs root.
// Without root those tests are skipped; store_write_failure_test.cc covers full disks without it.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/store_batches.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::fault {
namespace {

using ::testing::HasSubstr;

constexpr size_t kAlertBytes = 64 << 10;
constexpr int kBatchesMax = 2000;  // more than fit on the small disk

class SmallDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    mounted_ = mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=20m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "cannot mount a small tmpfs here (" << std::strerror(errno)
                   << "); needs root with CAP_SYS_ADMIN";
    }
  }
  void TearDown() override {
    if (mounted_) umount2(directory_.path().c_str(), MNT_DETACH);
  }

  store::StoreOptions Options() const {
    return {.directory = directory_.File("data"), .write_buffer_bytes = 2 << 20};
  }

  // Fills `bytes` of the disk until the file is removed.
  void PutBallast(size_t bytes) {
    std::ofstream(directory_.File("ballast")) << std::string(bytes, 'x');
    ASSERT_EQ(std::filesystem::file_size(directory_.File("ballast")), bytes);
  }
  // Fills the rest of the disk.
  void FillRest() {
    std::ofstream file(directory_.File("ballast"), std::ios::binary | std::ios::app);
    const std::string block(4 << 10, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void RemoveBallast() { std::filesystem::remove(directory_.File("ballast")); }

  // Writes batches after `batches` until one is refused; returns the number of the last one taken.
  int64_t FillUp(store::Store* store, int64_t batches, absl::Status* refusal) {
    for (int i = 0; i < kBatchesMax; ++i) {
      *refusal = store->Write(NumberedBatch(batches + 1, kAlertBytes));
      if (!refusal->ok()) return batches;
      ++batches;
    }
    ADD_FAILURE() << "the disk did not fill up";
    return batches;
  }

  support::TempDir directory_;
  bool mounted_ = false;
};

TEST_F(SmallDiskTest, AFullDiskRefusesWholeBatchesReadsGoOnAndWritingResumesByItself) {
  PutBallast(10 << 20);
  ASSERT_OK_AND_ASSIGN(auto store, store::OpenStore(Options()));
  absl::Status refusal;
  const int64_t batches = FillUp(store.get(), 0, &refusal);
  EXPECT_THAT(refusal,
              support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("cannot write")));
  EXPECT_GT(batches, 0);
  EXPECT_FALSE(store->Stats().writable);
  EXPECT_EQ(CheckHoldsExactly(*store, batches), "");

  // The disk stays full: batches are refused whole, and reads go on. A failed flush deletes its
  // unfinished table; the space that this frees is filled too.
  for (int i = 0; i < 3; ++i) {
    FillRest();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    FillRest();
    EXPECT_THAT(
        store->Write(NumberedBatch(batches + 1, kAlertBytes)),
        support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left")));
    EXPECT_EQ(CheckHoldsExactly(*store, batches), "");
  }

  RemoveBallast();
  ASSERT_OK(store->Write(NumberedBatch(batches + 1, kAlertBytes)));
  EXPECT_TRUE(store->Stats().writable);
  ASSERT_OK(store->Write(NumberedBatch(batches + 2, kAlertBytes)));
  EXPECT_EQ(CheckHoldsExactly(*store, batches + 2), "");
  store.reset();
  ASSERT_OK_AND_ASSIGN(store, store::OpenStore(Options()));
  EXPECT_EQ(CheckHoldsExactly(*store, batches + 2), "");
}

TEST_F(SmallDiskTest, ReadersAreSafeWhileTheDatabaseIsReopened) {
  constexpr size_t kBallastBytes = 17 << 20;  // what is stored fits into the rest several times
  PutBallast(kBallastBytes);
  ASSERT_OK_AND_ASSIGN(auto store, store::OpenStore(Options()));
  std::atomic<bool> stop = false;
  std::atomic<int> failures = 0;
  std::atomic<int> reads = 0;
  std::thread reader([&] {
    while (!stop) {
      const int64_t last = LastBatch(*store);
      if (last < 0) ++failures;
      if (last > 0 &&
          !store->Steps(kNumberedRun, {}, [](const model::StepRow&) { return true; }).ok()) {
        ++failures;
      }
      ++reads;
    }
  });
  int64_t batches = 0;
  for (int round = 0; round < 3; ++round) {
    absl::Status refusal;
    batches = FillUp(store.get(), batches, &refusal);
    EXPECT_THAT(refusal, support::StatusIs(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("store: cannot")));
    RemoveBallast();
    EXPECT_OK(store->Write(NumberedBatch(++batches, kAlertBytes)));
    FillRest();
  }
  stop = true;
  reader.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(reads, 0);
  EXPECT_EQ(CheckHoldsExactly(*store, batches), "");
}

TEST_F(SmallDiskTest, AReadOnlyMediumIsUnavailableForWritesAndRefusedOnOpening) {
  const std::string path = directory_.path();
  // A writer with open files keeps a file system writable, so this one is closed first.
  {
    ASSERT_OK_AND_ASSIGN(const auto store, store::OpenStore(Options()));
    ASSERT_OK(store->Write(NumberedBatch(1, 0)));
  }
  ASSERT_EQ(mount("tmpfs", path.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0)
      << std::strerror(errno);
  EXPECT_THAT(store::OpenStore(Options()), support::StatusIs(absl::StatusCode::kPermissionDenied,
                                                             HasSubstr("Read-only file system")));
  store::StoreOptions read_only = Options();
  read_only.read_only = true;
  ASSERT_OK_AND_ASSIGN(const auto reader, store::OpenStore(read_only));
  EXPECT_EQ(CheckHoldsExactly(*reader, 1), "");
}

// The kernel refuses to make a file system read-only while files are open for writing; a read-only
// mount over the directory lets the open log be written on, and no new file be made.
TEST_F(SmallDiskTest, ADirectoryThatTurnsReadOnlyRefusesAndIsWrittenAgainByItself) {
  store::StoreOptions options = Options();
  options.write_buffer_bytes = 1 << 20;
  ASSERT_OK_AND_ASSIGN(auto store, store::OpenStore(options));
  ASSERT_OK(store->Write(NumberedBatch(1, kAlertBytes)));
  const std::string path = options.directory;
  ASSERT_EQ(mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr), 0)
      << std::strerror(errno);
  ASSERT_EQ(mount(nullptr, path.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0)
      << std::strerror(errno);
  absl::Status refusal;
  const int64_t batches = FillUp(store.get(), 1, &refusal);
  EXPECT_THAT(refusal, support::StatusIs(absl::StatusCode::kUnavailable,
                                         HasSubstr("Read-only file system")));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(
        store->Write(NumberedBatch(batches + 1, kAlertBytes)),
        support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("Read-only file system")));
    EXPECT_FALSE(store->Stats().writable);
    EXPECT_EQ(CheckHoldsExactly(*store, batches), "");
  }
  ASSERT_EQ(umount2(path.c_str(), MNT_DETACH), 0) << std::strerror(errno);
  ASSERT_OK(store->Write(NumberedBatch(batches + 1, kAlertBytes)));
  EXPECT_TRUE(store->Stats().writable);
  store.reset();
  ASSERT_OK_AND_ASSIGN(store, store::OpenStore(options));
  EXPECT_EQ(CheckHoldsExactly(*store, batches + 1), "");
}

TEST_F(SmallDiskTest, ADiskThatIsFullFromTheStartIsResourceExhausted) {
  FillRest();
  EXPECT_THAT(store::OpenStore(Options()),
              support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left")));
}

// The limit of open files is reached by somebody else in this process.
TEST(StoreOpenFilesTest, WithoutFileDescriptorsItRefusesAndIsWrittenAgainByItself) {
  support::TempDir directory;
  const store::StoreOptions options{.directory = directory.File("data"),
                                    .write_buffer_bytes = 256 << 10};
  ASSERT_OK_AND_ASSIGN(auto store, store::OpenStore(options));
  ASSERT_OK(store->Write(NumberedBatch(1, kAlertBytes)));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // what is open stays open
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  int64_t batches = 1;
  absl::Status refusal;
  for (int i = 0; i < kBatchesMax && refusal.ok(); ++i) {
    refusal = store->Write(NumberedBatch(batches + 1, kAlertBytes));
    if (refusal.ok()) ++batches;
  }
  const absl::Status again = store->Write(NumberedBatch(batches + 1, kAlertBytes));
  const bool writable = store->Stats().writable;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(refusal,
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Too many open files")));
  EXPECT_THAT(again,
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Too many open files")));
  EXPECT_FALSE(writable);
  EXPECT_EQ(CheckHoldsExactly(*store, batches), "");
  ASSERT_OK(store->Write(NumberedBatch(batches + 1, kAlertBytes)));
  EXPECT_TRUE(store->Stats().writable);
  store.reset();
  ASSERT_OK_AND_ASSIGN(store, store::OpenStore(options));
  EXPECT_EQ(CheckHoldsExactly(*store, batches + 1), "");
}

// An immutable directory stops root too, where the file system knows the flag.
TEST(StoreDirectoryTest, ADirectoryThatTakesNoFilesIsPermissionDenied) {
  support::TempDir parent;
  const std::string path = parent.File("data");
  std::filesystem::create_directory(path);
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  int flags = FS_IMMUTABLE_FL;
  if (ioctl(directory, FS_IOC_SETFLAGS, &flags) != 0) {
    close(directory);
    GTEST_SKIP() << "cannot make a directory immutable here (" << std::strerror(errno) << ")";
  }
  EXPECT_THAT(store::OpenStore({.directory = path}),
              support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("cannot write in")));
  flags = 0;
  EXPECT_EQ(ioctl(directory, FS_IOC_SETFLAGS, &flags), 0);
  close(directory);
}

}  // namespace
}  // namespace foreshock::fault
