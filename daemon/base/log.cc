#include "daemon/base/log.h"

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace foreshock::base {
namespace {

constexpr absl::Duration kRepeatInterval = absl::Seconds(10);
constexpr size_t kRepeatKeysMax = 1024;

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// The one logger of the process; never destroyed, so that late threads may still log.
spdlog::logger& Logger() {
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger("foreshock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L %v", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

// A value is quoted where it would not read as one word; control characters never get through.
std::string FieldValue(const std::string& value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c != '"' && c != '\\' && c != '=' && c != '\x7f';
  });
  return plain ? value : absl::StrCat("\"", absl::Utf8SafeCEscape(value), "\"");
}

struct Repeats {
  absl::Time last;
  uint64_t left_out = 0;
};

struct RepeatTable {
  Mutex mutex;
  absl::flat_hash_map<std::string, Repeats> by_key ABSL_GUARDED_BY(mutex);
};

RepeatTable& RepeatedLines() {
  static RepeatTable* table = new RepeatTable;
  return *table;
}

}  // namespace

absl::Status SetLogLevel(absl::string_view name) {
  if (name == "debug") {
    Logger().set_level(spdlog::level::debug);
  } else if (name == "info") {
    Logger().set_level(spdlog::level::info);
  } else if (name == "warning") {
    Logger().set_level(spdlog::level::warn);
  } else if (name == "error") {
    Logger().set_level(spdlog::level::err);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("log level '", name, "': allowed are debug, info, warning, error"));
  }
  return absl::OkStatus();
}

void Log(LogLevel level, absl::string_view component, absl::string_view message, LogFields fields) {
  if (!Logger().should_log(ToSpdlog(level))) return;
  std::string line = absl::StrCat(component, ": ", absl::Utf8SafeCEscape(message));
  for (const auto& [key, value] : fields) absl::StrAppend(&line, " ", key, "=", FieldValue(value));
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line));
}

void LogEvery(absl::string_view key, LogLevel level, absl::string_view component,
              absl::string_view message, LogFields fields) {
  uint64_t left_out = 0;
  {
    RepeatTable& table = RepeatedLines();
    MutexLock lock(&table.mutex);
    const absl::Time now = SteadyNow();
    if (table.by_key.size() >= kRepeatKeysMax) table.by_key.clear();
    auto [it, first] = table.by_key.try_emplace(std::string(key));
    if (!first && now - it->second.last < kRepeatInterval) {
      ++it->second.left_out;
      return;
    }
    left_out = it->second.left_out;
    it->second = {now, 0};
  }
  if (left_out == 0) {
    Log(level, component, message, fields);
  } else {
    Log(level, component, absl::StrCat(message, " (and ", left_out, " like it)"), fields);
  }
}

}  // namespace foreshock::base
