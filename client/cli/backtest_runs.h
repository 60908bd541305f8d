// The runs of a backtest: found, read, judged and, if asked for, drawn; several at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/labels.h"
#include "daemon/backtest/verdict.h"
#include "daemon/rules/rule_set.h"
#include "daemon/store/store.h"

namespace foreshock::cli {

struct BacktestArguments {
  std::vector<std::string> rules;
  std::vector<std::string> captures;  // files, and folders of them
  std::vector<std::string> runs;      // of the store in `data`
  std::string data;
  std::string index;
  std::optional<int64_t> fault_from;  // of runs that the index does not name
  bool healthy = false;               // they are healthy
  std::string plot;
  std::vector<std::string> plot_rules;
  unsigned jobs = 1;
};

struct BacktestRun {
  std::string name;    // the file's without its ending, or the run's in the store
  std::string source;  // path; or the run's name, from the store
  bool stored = false;
  uint64_t bytes = 0;  // of the file; 0: not known
  std::optional<backtest::RunLabel> label;

  absl::Status status;  // why there is no result
  backtest::RunResult result;
  backtest::RunVerdict verdict;
  std::vector<std::string> notes;
  std::string plot;  // the picture's file
};

struct BacktestWork {
  std::vector<BacktestRun> runs;        // in the order of the index, then by name
  std::vector<std::string> not_given;   // runs of the index that there is no capture of
  std::unique_ptr<store::Store> store;  // with `runs`
};

// Everything that can be found wrong before the work begins is found here: files that do not exist,
// an empty folder, two captures of one name, a store that cannot be opened, errors of the index.
absl::StatusOr<BacktestWork> FindRuns(const BacktestArguments& arguments);

// Judges every run; what fails is left in its `status`. Shows progress on stderr.
void JudgeRuns(const BacktestArguments& arguments, std::shared_ptr<const rules::RuleSet> rules,
               BacktestWork* work);

}  // namespace foreshock::cli
