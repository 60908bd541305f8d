// kill -9 at random points: nothing acknowledged is missing, nothing is there twice or in part.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/store/disk_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/store_batches.h"
#include "tests/fault/store_blocks.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace foreshock::fault {
namespace {

using ::testing::HasSubstr;

constexpr int kRounds = 25;
constexpr int kRetentionRounds = 12;
constexpr int kAcksMax = 40;       // per round, before the kill
constexpr int kDelayMaxUs = 3000;  // after the last awaited ack
constexpr int kChildDeadlineMs = 30'000;

// A child process; it is killed by the destructor at the latest.
class Child {
 public:
  Child(const std::string& verb, const std::string& directory) {
    int in[2];
    int out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string program = STORE_CHILD;
    std::string verb_argument = verb;
    std::string directory_argument = directory;
    char* arguments[] = {program.data(), verb_argument.data(), directory_argument.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    stdin_ = in[1];
    stdout_ = out[0];
  }
  ~Child() {
    Kill();
    close(stdin_);
    close(stdout_);
  }

  pid_t pid() const { return pid_; }

  // Returns the next line; empty at the end of the output or after the deadline.
  std::string ReadLine() {
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        const std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      pollfd ready = {stdout_, POLLIN, 0};
      if (poll(&ready, 1, kChildDeadlineMs) <= 0) return "";
      char bytes[4096];
      const ssize_t got = read(stdout_, bytes, sizeof(bytes));
      if (got <= 0) return "";
      buffer_.append(bytes, static_cast<size_t>(got));
    }
  }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int stdin_ = -1;
  int stdout_ = -1;
  std::string buffer_;
};

void SpinFor(std::chrono::microseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

unsigned Seed() {
  const char* given = std::getenv("FORESHOCK_TEST_SEED");
  unsigned seed = 0;
  if (given != nullptr && absl::SimpleAtoi(given, &seed)) return seed;
  return std::random_device()();
}

std::mt19937 SeededRandom() {
  const unsigned seed = Seed();
  testing::Test::RecordProperty("seed", std::to_string(seed));
  std::printf("seed %u (repeat with FORESHOCK_TEST_SEED)\n", seed);
  return std::mt19937(seed);
}

// Kills a child that prints numbers, at a random moment after one of its first acks or while it
// opens its store. Returns the last number that it printed, which is acknowledged even if nobody
// has read it yet; `before` if it printed none.
void KillAWriter(const std::string& verb, const std::string& directory, bool while_opening,
                 int64_t before, std::mt19937* random, int64_t* acked) {
  *acked = before;
  Child child(verb, directory);
  const int acks = while_opening ? 0 : static_cast<int>((*random)() % kAcksMax) + 1;
  for (int i = 0; i < acks; ++i) {
    ASSERT_TRUE(absl::SimpleAtoi(child.ReadLine(), acked)) << "the child ended early";
  }
  SpinFor(std::chrono::microseconds((*random)() % kDelayMaxUs));
  child.Kill();
  for (std::string line = child.ReadLine(); !line.empty(); line = child.ReadLine()) {
    ASSERT_TRUE(absl::SimpleAtoi(line, acked));
  }
}

TEST(StoreCrashTest, NothingAcknowledgedIsLostDoubledOrTornByKill9) {
  std::mt19937 random = SeededRandom();
  support::TempDir directory;
  int64_t batches = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    int64_t acked = 0;
    ASSERT_NO_FATAL_FAILURE(
        KillAWriter("append", directory.File("data"), round % 5 == 4, batches, &random, &acked));
    auto store = store::OpenStore({.directory = directory.File("data")});
    ASSERT_OK(store);
    batches = LastBatch(**store);
    EXPECT_GE(batches, acked) << "acknowledged batches are missing";
    EXPECT_LE(batches, acked + 1) << "more than the one batch under way";
    ASSERT_EQ(CheckHoldsExactly(**store, batches), "");
  }
  EXPECT_GT(batches, kRounds);
}

TEST(StoreCrashTest, RetentionLosesAndDoublesNothingUnderKill9) {
  std::mt19937 random = SeededRandom();
  support::TempDir directory;
  int64_t last = 0;
  int64_t raw_from = 0;
  for (int round = 0; round < kRetentionRounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    int64_t acked = 0;
    ASSERT_NO_FATAL_FAILURE(
        KillAWriter("retain", directory.File("data"), round % 5 == 4, last, &random, &acked));
    auto store = store::OpenDiskStore({.directory = directory.File("data")});
    ASSERT_OK(store);
    last = LastBlockStep(**store);
    EXPECT_GE(last, acked) << "acknowledged steps are missing";
    EXPECT_LE(last, acked + kBlockSteps) << "more than the one block under way";
    ASSERT_EQ(CheckHoldsBlocks(**store, last), "");
    ASSERT_OK_AND_ASSIGN(raw_from, (*store)->RawFrom(kBlockRun, {}));
  }
  EXPECT_GT(raw_from, 1) << "retention never did anything";
}

TEST(StoreCrashTest, ASecondProcessIsRefusedWithTheFirstOnesId) {
  support::TempDir directory;
  const store::StoreOptions options{.directory = directory.File("data")};
  {
    Child child("hold", options.directory);
    ASSERT_EQ(child.ReadLine(), "open");
    EXPECT_THAT(store::OpenStore(options),
                support::StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr(absl::StrCat("is in use by process ", child.pid()))));
    store::StoreOptions read_only = options;
    read_only.read_only = true;
    EXPECT_OK(store::OpenStore(read_only));
    child.Kill();
  }
  EXPECT_OK(store::OpenStore(options));
}

}  // namespace
}  // namespace foreshock::fault
