// Structured log lines on stderr: time, level, component, message, key=value fields.
//
//   LogInfo("ingest", "stream opened", {{"run", run}, {"rank", absl::StrCat(rank)}});
//
// Thread-safe. Repeating faults must use LogEvery so that a broken peer cannot fill the disk.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace foreshock::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogFields = std::initializer_list<std::pair<absl::string_view, std::string>>;

// Sets the lowest level that is written: "debug", "info", "warning" or "error".
absl::Status SetLogLevel(absl::string_view name);

void Log(LogLevel level, absl::string_view component, absl::string_view message,
         LogFields fields = {});

inline void LogDebug(absl::string_view component, absl::string_view message,
                     LogFields fields = {}) {
  Log(LogLevel::kDebug, component, message, fields);
}
inline void LogInfo(absl::string_view component, absl::string_view message, LogFields fields = {}) {
  Log(LogLevel::kInfo, component, message, fields);
}
inline void LogWarning(absl::string_view component, absl::string_view message,
                       LogFields fields = {}) {
  Log(LogLevel::kWarning, component, message, fields);
}
inline void LogError(absl::string_view component, absl::string_view message,
                     LogFields fields = {}) {
  Log(LogLevel::kError, component, message, fields);
}

// At most one line per `key` and 10 s; the line says how many were left out since the last one.
void LogEvery(absl::string_view key, LogLevel level, absl::string_view component,
              absl::string_view message, LogFields fields = {});

}  // namespace foreshock::base
