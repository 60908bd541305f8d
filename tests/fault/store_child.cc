// store_child append DIRECTORY: writes numbered batches where the store ends, for ever, and says
// each number on stdout once it is acknowledged.
// store_child hold DIRECTORY: opens the store, says "open" and waits for the end of stdin.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "daemon/store/store.h"
#include "tests/fault/store_batches.h"

namespace foreshock {
namespace {

bool Say(const std::string& line) {
  return write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

int Run(const std::string& verb, const std::string& directory) {
  StoreOptions options;
  options.directory = directory;
  options.write_buffer_bytes = 256 << 10;  // so that flushes and compactions are killed too
  options.open_points = 100;               // and folds
  const auto store = OpenStore(options);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  if (verb == "hold") {
    if (!Say("open\n")) return 1;
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
  }
  for (int64_t n = LastBatch(**store) + 1;; ++n) {
    if (const absl::Status status = (*store)->Write(NumberedBatch(n, 4096)); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
    if (!Say(std::to_string(n) + "\n")) return 1;
  }
}

}  // namespace
}  // namespace foreshock

int main(int argc, char** argv) { return argc == 3 ? foreshock::Run(argv[1], argv[2]) : 2; }
