// Memory, CPU time, files and start of this process, from /proc.
#pragma once

#include <cstdint>

namespace foreshock::exporter {

struct ProcessStats {
  uint64_t resident_bytes = 0;
  double cpu_s = 0;  // user and system, all threads
  uint64_t open_files = 0;
  double start_unix_s = 0;
};

// 0 where /proc does not say. Thread-safe; about 50 us.
ProcessStats ReadProcessStats();

}  // namespace foreshock::exporter
