#include "tests/mutation/mutant.h"

#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"

namespace foreshock::mutation {
namespace {

constexpr int kMutantsMax = 1 << 16;

bool asked[kMutantsMax];

// Appends a line "Suite.Test milliseconds number number ..." for each test that has run, to the
// file that FORESHOCK_MUTANTS_REACHED names. What static initialisers reach counts as the first
// test's.
class Reached : public testing::EmptyTestEventListener {
 public:
  explicit Reached(const char* path) : path_(path) {}

  void OnTestEnd(const testing::TestInfo& test) override {
    std::FILE* const file = std::fopen(path_, "a");
    if (file == nullptr) return;
    std::fprintf(file, "%s.%s %lld", test.test_suite_name(), test.name(),
                 static_cast<long long>(test.result()->elapsed_time()));
    for (int number = 1; number < kMutantsMax; ++number) {
      if (asked[number]) std::fprintf(file, " %d", number);
      asked[number] = false;
    }
    std::fprintf(file, "\n");
    std::fclose(file);
  }

 private:
  const char* const path_;
};

const bool listens = [] {
  const char* const path = std::getenv("FORESHOCK_MUTANTS_REACHED");
  if (path != nullptr) {
    testing::UnitTest::GetInstance()->listeners().Append(new Reached(path));  // which owns it
  }
  return path != nullptr;
}();

}  // namespace

bool IsOn(int number) {
  static const char* const text = std::getenv("FORESHOCK_MUTANT");
  static const int chosen = text == nullptr ? 0 : std::atoi(text);
  if (number == 0) return false;
  asked[number] = true;
  return number == chosen;
}

}  // namespace foreshock::mutation
