// What is known of recorded runs: which are healthy, and which fault began where in the others.
// Read from an index.json (docs/backtest.md); nothing else in the daemon ever sees it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace foreshock::backtest {

struct RunLabel {
  enum class Expected {
    kQuiet,     // healthy: no warning at all
    kAlarm,     // none before the injection, one in time after it
    kWarn,      // none before the injection, one at any time after it
    kUnscored,  // no verdict: shown as it is
  };
  size_t place = 0;           // in the index
  std::string split = "all";  // verdicts are counted apart by it
  Expected expected = Expected::kUnscored;
  std::string fault{};                       // fault id; empty: none, or unknown
  std::optional<int64_t> injection_step{};   // from here on the run is ill
  std::optional<int64_t> divergence_step{};  // where the loss broke
  bool divergence_known = false;             // it was given, perhaps as null: it never broke
  std::optional<int64_t> harm_step{};        // from here on the loss is worse than in health
  std::vector<uint32_t> layers{};            // that have the fault; empty: no certain ones
  std::vector<std::string> ignored{};        // keys that say nothing to a verdict
};

using RunLabels = std::map<std::string, RunLabel>;  // by name: the file's without its ending

// InvalidArgument with every error as file:line:column.
absl::StatusOr<RunLabels> ParseLabels(absl::string_view file, absl::string_view text);
// As ReadYamlFile, and as ParseLabels.
absl::StatusOr<RunLabels> ReadLabels(const std::string& file);

}  // namespace foreshock::backtest
