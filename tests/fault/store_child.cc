// store_child append DIRECTORY: appends numbered batches for ever, and prints each number once it
// is acknowledged. store_child retain DIRECTORY: appends blocks of steps beside retention without a
// pause, and prints the last step of each block once it is acknowledged. store_child hold
// DIRECTORY: opens the store, prints "open" and waits for the end of stdin.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "daemon/store/disk_store.h"
#include "tests/fault/store_batches.h"
#include "tests/fault/store_blocks.h"

namespace foreshock::fault {
namespace {

bool Say(const std::string& line) {
  return write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int AppendForEver(store::Store* store) {
  for (int64_t n = LastBatch(*store) + 1;; ++n) {
    if (const absl::Status status = store->Write(NumberedBatch(n, 4096)); !status.ok()) {
      return Fail(status);
    }
    if (!Say(std::to_string(n) + "\n")) return 1;
  }
}

int RetainForEver(store::DiskStore* store) {
  std::thread([store] {
    for (;;) {
      const auto retained =
          store->Retain({.raw_steps = kBlockRawSteps}, absl::Now(), {.go_on = [] { return true; }});
      if (!retained.ok()) _exit(Fail(retained.status()));
    }
  }).detach();
  for (int64_t last = LastBlockStep(*store);; last += kBlockSteps) {
    if (last < 0) return Fail(absl::DataLossError("the run cannot be read"));
    if (const absl::Status status = store->Write(BlockAfter(last)); !status.ok()) {
      return Fail(status);
    }
    if (!Say(std::to_string(last + kBlockSteps) + "\n")) return 1;
  }
}

int Run(const std::string& verb, const std::string& directory) {
  store::StoreOptions options;
  options.directory = directory;
  options.write_buffer_bytes = 256 << 10;  // so that flushes and compactions are killed too
  options.open_points = 100;               // and folds
  const auto store = store::OpenDiskStore(options);
  if (!store.ok()) return Fail(store.status());
  if (verb == "append") return AppendForEver(store->get());
  if (verb == "retain") return RetainForEver(store->get());
  if (verb != "hold" || !Say("open\n")) return 1;
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace
}  // namespace foreshock::fault

int main(int argc, char** argv) { return argc == 3 ? foreshock::fault::Run(argv[1], argv[2]) : 2; }
