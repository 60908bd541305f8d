#include "daemon/exporter/process_stats.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/base/file.h"

namespace foreshock::exporter {
namespace {

// Fields of /proc/self/stat behind the command, which may hold spaces; [0] is field 3 of proc(5).
std::vector<double> StatFields() {
  const std::string stat = base::ReadFile("/proc/self/stat", 4096).value_or("");
  const size_t command_end = stat.rfind(')');
  std::vector<double> fields;
  if (command_end == std::string::npos) return fields;
  for (const auto word : absl::StrSplit(stat.substr(command_end + 1), ' ', absl::SkipEmpty())) {
    double value = 0;
    if (!absl::SimpleAtod(word, &value)) value = 0;  // the state letter
    fields.push_back(value);
  }
  return fields;
}

double BootUnixSeconds() {
  timespec boot{}, wall{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_REALTIME, &wall);
  return static_cast<double>(wall.tv_sec - boot.tv_sec) +
         1e-9 * static_cast<double>(wall.tv_nsec - boot.tv_nsec);
}

}  // namespace

ProcessStats ReadProcessStats() {
  constexpr size_t kUserTicks = 11, kSystemTicks = 12, kStartTicks = 19, kResidentPages = 21;
  ProcessStats stats;
  const std::vector<double> fields = StatFields();
  if (fields.size() > kResidentPages) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    stats.cpu_s = (fields[kUserTicks] + fields[kSystemTicks]) / ticks;
    // Once: two readings differ by a hair, and changes() of Prometheus would see restarts.
    static const double boot_unix_s = BootUnixSeconds();
    stats.start_unix_s = boot_unix_s + fields[kStartTicks] / ticks;
    stats.resident_bytes = static_cast<uint64_t>(fields[kResidentPages]) *
                           static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++stats.open_files;
  }
  return stats;
}

}  // namespace foreshock::exporter
