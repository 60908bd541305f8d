// The n-th write to a file fails, for n = 1, 2, 3, ...: whole or half, once or until there is
// space.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/store/rocks_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "tests/fault/store_batches.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::fault {
namespace {

struct FaultPlan {
  std::atomic<int> appends_left{-1};  // the append that brings it to 0 fails; negative: none
  std::atomic<bool> torn{false};      // a failing append writes its first half
  std::atomic<bool> lasting{false};   // so do all after it
  std::atomic<bool> no_space{true};   // else: input/output error
  std::atomic<bool> full{false};

  bool Fails() {
    if (full) return true;
    if (appends_left < 0 || appends_left.fetch_sub(1) != 1) return false;
    full = lasting.load();
    return true;
  }
  void Heal() {
    appends_left = -1;
    full = false;
  }
};

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, FaultPlan* plan)
      : FSWritableFileOwnerWrapper(std::move(file)), plan_(plan) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    if (!plan_->Fails()) return target()->Append(data, options, debug);
    if (plan_->torn) {
      const rocksdb::Slice half(data.data(), data.size() / 2);
      target()->Append(half, options, debug).PermitUncheckedError();
    }
    return plan_->no_space ? rocksdb::IOStatus::NoSpace("No space left on device")
                           : rocksdb::IOStatus::IOError("Input/output error");
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&,
                           rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }

 private:
  FaultPlan* plan_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(FaultPlan* plan)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), plan_(plan) {}

  const char* Name() const override { return "FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = target()->NewWritableFile(name, options, result, debug);
    if (status.ok()) *result = std::make_unique<FaultyFile>(std::move(*result), plan_);
    return status;
  }

 private:
  FaultPlan* plan_;
};

struct Case {
  const char* name;
  bool torn;
  bool lasting;
  bool no_space;
};

class WriteFailureTest : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, WriteFailureTest,
                         ::testing::Values(Case{"Once", false, false, true},
                                           Case{"OnceTorn", true, false, true},
                                           Case{"Full", false, true, true},
                                           Case{"FullTorn", true, true, true},
                                           Case{"BrokenTorn", true, false, false}),
                         [](const auto& info) { return info.param.name; });

TEST_P(WriteFailureTest, TheFailedBatchIsNotStoredTheOthersAreAndWritingResumes) {
  constexpr int kFailures = 8;
  constexpr size_t kAlertBytes = 40 << 10;  // beyond a block of the log: several appends
  constexpr int kBatchesMax = 100;
  FaultPlan plan;
  plan.torn = GetParam().torn;
  plan.lasting = GetParam().lasting;
  plan.no_space = GetParam().no_space;
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&plan));
  support::TempDir directory;
  // So small that flushes in the background write tables too.
  const store::StoreOptions options{.directory = directory.File("data"),
                                    .write_buffer_bytes = 256 << 10};
  ASSERT_OK_AND_ASSIGN(auto store, store::OpenRocksStore(options, env.get()));
  int64_t batches = 0;
  int refused = 0;
  for (int n = 1; n <= kFailures; ++n) {
    SCOPED_TRACE(absl::StrCat("append ", n, " fails"));
    plan.appends_left = n;
    absl::Status status;
    for (int i = 0; i < kBatchesMax && status.ok(); ++i) {
      status = store->Write(NumberedBatch(batches + 1, kAlertBytes));
      if (status.ok()) ++batches;
    }
    if (status.ok() && !GetParam().lasting) {
      // It was an append of a compaction, which RocksDB has repeated by itself.
      ASSERT_LT(plan.appends_left, 1);
      ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after a repeated compaction";
      continue;
    }
    ++refused;
    ASSERT_EQ(status.code(), GetParam().no_space ? absl::StatusCode::kResourceExhausted
                                                 : absl::StatusCode::kUnavailable)
        << status;
    EXPECT_FALSE(store->Stats().writable);
    ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after the failure";
    if (GetParam().lasting) {
      // The probe's file is a real one, so a reopen is tried and fails; reads survive that.
      EXPECT_FALSE(store->Write(NumberedBatch(batches + 1, kAlertBytes)).ok());
      ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after a vain reopen";
    }
    plan.Heal();
    ASSERT_OK(store->Write(NumberedBatch(batches + 1, kAlertBytes)));
    ++batches;
    EXPECT_TRUE(store->Stats().writable);
    ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after it resumed";
    if (n % 3 == 0) {
      store.reset();
      ASSERT_OK_AND_ASSIGN(store, store::OpenRocksStore(options, env.get()));
      ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after reopening";
    }
  }
  EXPECT_GT(refused, kFailures / 2);
}

TEST_P(WriteFailureTest, AFoldThatFailsChangesNoAnswerAndIsDoneAgain) {
  constexpr int kFailures = 12;
  constexpr int kBatchesEach = 40;
  FaultPlan plan;
  plan.torn = GetParam().torn;
  plan.lasting = GetParam().lasting;
  plan.no_space = GetParam().no_space;
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&plan));
  support::TempDir directory;
  const store::StoreOptions options{.directory = directory.File("data")};
  ASSERT_OK_AND_ASSIGN(auto store, store::OpenRocksStore(options, env.get()));
  int64_t batches = 0;
  int failed = 0;
  for (int n = 1; n <= kFailures; ++n) {
    SCOPED_TRACE(absl::StrCat("append ", n, " fails"));
    for (int i = 0; i < kBatchesEach; ++i) ASSERT_OK(store->Write(NumberedBatch(++batches, 0)));
    plan.appends_left = n;
    const absl::Status folded = store->Fold(kNumberedRun);
    ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after a fold: " << folded;
    if (!folded.ok()) {
      ++failed;
      EXPECT_FALSE(store->Stats().writable);
      EXPECT_FALSE(store->Fold(kNumberedRun).ok()) << "before a write has reopened the store";
    }
    plan.Heal();
    // A compaction may have met the fault; then this write is the first to fail.
    ++batches;
    if (!store->Write(NumberedBatch(batches, 0)).ok()) {
      ASSERT_OK(store->Write(NumberedBatch(batches, 0))) << "after a reopen";
    }
    ASSERT_OK(store->Fold(kNumberedRun));
    EXPECT_EQ(store->Stats().open_points, 0u);
    ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after the fold that was done again";
    if (n % 4 == 0) {
      store.reset();
      ASSERT_OK_AND_ASSIGN(store, store::OpenRocksStore(options, env.get()));
      ASSERT_EQ(CheckHoldsExactly(*store, batches), "") << "after reopening";
    }
  }
  EXPECT_GT(failed, 0);
}

TEST_P(WriteFailureTest, ASyncBesideAndAfterAFailedWriteIsNotTheEnd) {
  FaultPlan plan;
  plan.torn = GetParam().torn;
  plan.lasting = GetParam().lasting;
  plan.no_space = GetParam().no_space;
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&plan));
  support::TempDir directory;
  ASSERT_OK_AND_ASSIGN(auto store,
                       store::OpenRocksStore({.directory = directory.File("data")}, env.get()));
  ASSERT_OK(store->Write(NumberedBatch(1, 0)));
  std::atomic<bool> stop{false};
  std::atomic<int> synced{0};
  std::thread syncer([&] {
    while (!stop) {
      EXPECT_OK(store->Sync());
      ++synced;
    }
  });
  constexpr int kBatches = 6;
  int failed = 0;
  for (int n = 2; n <= kBatches; ++n) {
    plan.appends_left = 1;
    absl::Status written = store->Write(NumberedBatch(n, 0));  // or a compaction meets the fault
    if (!written.ok()) ++failed;
    const int before = synced;
    while (synced < before + 2) std::this_thread::yield();  // one has begun since
    plan.Heal();
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!written.ok() && absl::Now() < deadline) written = store->Write(NumberedBatch(n, 0));
    EXPECT_OK(written);
  }
  stop = true;
  syncer.join();
  EXPECT_GT(failed, 0);
  EXPECT_EQ(CheckHoldsExactly(*store, kBatches), "");
}

TEST_P(WriteFailureTest, AFailedFirstOpeningIsAnErrorAndTheNextOneWorks) {
  FaultPlan plan;
  plan.torn = GetParam().torn;
  plan.lasting = GetParam().lasting;
  plan.no_space = GetParam().no_space;
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&plan));
  int failed = 0;
  for (int n = 1; n <= 8; ++n) {
    SCOPED_TRACE(absl::StrCat("append ", n, " fails"));
    support::TempDir directory;
    const store::StoreOptions options{.directory = directory.File("data")};
    plan.appends_left = n;
    if (!store::OpenRocksStore(options, env.get()).ok()) ++failed;
    plan.Heal();
    auto store = store::OpenRocksStore(options, env.get());
    ASSERT_OK(store);
    ASSERT_OK((*store)->Write(NumberedBatch(1, 0)));
    EXPECT_EQ(CheckHoldsExactly(**store, 1), "");
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace foreshock::fault
