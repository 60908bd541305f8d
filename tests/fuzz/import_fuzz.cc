// Any bytes as a log in each of the three forms: the reader ends with an error or at the end, and a
// row that it hands out is within the limits.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/log_reader.h"
#include "daemon/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock::cli;  // NOLINT
  static const int file = memfd_create("log", 0);
  for (const LogFormat format : {LogFormat::kMegatron, LogFormat::kJsonl, LogFormat::kCsv}) {
    FORESHOCK_CHECK(file >= 0 && ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0);
    FORESHOCK_CHECK(write(file, data, size) == static_cast<ssize_t>(size));
    LogNotes notes;
    auto reader = LogReader::Open(absl::StrCat("/proc/self/fd/", file), {.format = format}, &notes);
    if (!reader.ok()) continue;
    LogRow row;
    uint64_t rows = 0;
    while (true) {
      const absl::StatusOr<bool> more = (*reader)->Next(&row);
      if (!more.ok() || !*more) break;
      FORESHOCK_CHECK(row.step >= 0 && row.step <= int64_t{1} << 53);
      FORESHOCK_CHECK(row.time_unix_ns >= 0 && row.values.size() <= size);
      FORESHOCK_CHECK(++rows <= size);
    }
    FORESHOCK_CHECK((*reader)->bytes_read() <= size);
    FORESHOCK_CHECK(notes.skipped.size() <= LogNotes::kSkippedMax);
  }
  return 0;
}
