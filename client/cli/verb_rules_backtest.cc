// foreshock rules backtest RULES...: what rules would have said in recorded runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/backtest_report.h"
#include "client/cli/backtest_runs.h"
#include "client/cli/format.h"
#include "client/cli/say.h"
#include "client/cli/verb_rules.h"
#include "daemon/base/gnuplot.h"

namespace foreshock::cli {
namespace {

int Fail(int code, absl::string_view message) {
  SayErrorLines(absl::StrCat("foreshock rules backtest: ", message, "\n"));
  return code;
}

// "" if the options go together.
std::string WrongUsage(const BacktestArguments& arguments) {
  if (arguments.captures.empty() && arguments.runs.empty()) {
    return "no run to judge: give --captures FILE|DIR... or --runs RUN... with --data DIR";
  }
  if (arguments.runs.empty() != arguments.data.empty()) {
    return "--runs RUN... and --data DIR go together: DIR is the daemon's data directory "
           "(`foreshock status` shows it), which is only read";
  }
  if (arguments.healthy && arguments.fault_from.has_value()) {
    return "--healthy and --fault-from contradict each other";
  }
  if (arguments.plot.empty()) {
    return arguments.plot_rules.empty() ? "" : "--plot-rules needs --plot FILE";
  }
  return std::string(base::CheckPlotFile(arguments.plot).message());
}

int Run(const Settings& settings, const BacktestArguments& arguments) {
  if (const std::string wrong = WrongUsage(arguments); !wrong.empty()) return Fail(kUsage, wrong);
  const auto rules = rules::LoadRules(arguments.rules);
  if (!rules.ok()) {
    SayErrorLines(absl::StrCat(rules.status().message(), "\n"));
    return Fail(kFinding, "the rule files have errors");
  }
  for (const std::string& name : arguments.plot_rules) {
    const auto is_it = [&name](const v1::RuleInfo& info) { return info.name() == name; };
    const auto& infos = (*rules)->infos();
    if (std::none_of(infos.begin(), infos.end(), is_it)) {
      return Fail(kUsage,
                  absl::StrCat("--plot-rules ", name, ": the rule files have no such rule"));
    }
  }
  if (!arguments.plot.empty()) {
    // Known before the work, not after it.
    const absl::Status drawable = base::RunGnuplot("");
    if (!drawable.ok()) return Fail(kFinding, drawable.message());
  }
  auto work = FindRuns(arguments);
  if (!work.ok()) return Fail(kFinding, work.status().message());
  if (!work->not_given.empty()) {
    SayError("note: the index also names %s, of which no capture was given\n",
             absl::StrJoin(work->not_given, ", "));
  }
  JudgeRuns(arguments, *rules, &*work);
  if (settings.output == Output::kJson) {
    PrintBacktestAsJson(arguments, **rules, *work);
  } else {
    PrintBacktest(**rules, *work);
  }
  int code = kOk;
  for (const BacktestRun& run : work->runs) {
    if (!run.status.ok()) code = Fail(kFinding, absl::StrCat(run.name, ": ", run.status.message()));
    if (run.verdict.kind == backtest::RunVerdict::Kind::kMissed) code = kFinding;
  }
  return code;
}

}  // namespace

void AddRulesBacktest(CLI::App& rules, Program& program) {
  auto arguments = std::make_shared<BacktestArguments>();
  arguments->jobs = std::max(1u, std::thread::hardware_concurrency());
  CLI::App* verb = rules.add_subcommand(
      "backtest", "Judge recorded runs by rule files: lead, false alarms, missed faults");
  verb->add_option("RULES", arguments->rules, "rule files, read as one set")->required();
  verb->add_option("--captures,-c", arguments->captures, "captures, or folders of captures")
      ->type_name("FILE|DIR");
  verb->add_option("--runs,-r", arguments->runs, "runs of the store in --data")->type_name("RUN");
  verb->add_option("--data", arguments->data,
                   "a daemon's data directory; read only, also while the daemon runs")
      ->type_name("DIR");
  verb->add_option("--index,-i", arguments->index,
                   "what is known of the runs; default: index.json of each folder of captures")
      ->type_name("FILE");
  verb->add_option("--fault-from", arguments->fault_from,
                   "runs that the index does not name are ill from this step on")
      ->type_name("STEP")
      ->check(WholeBetween(0, int64_t{1} << 53));
  verb->add_flag("--healthy", arguments->healthy, "runs that the index does not name are healthy");
  verb->add_option("--plot,-p", arguments->plot,
                   "draw loss, indicators, baselines and alerts; with several runs one picture "
                   "each, FILE-RUN.svg")
      ->type_name("FILE.svg|FILE.png");
  verb->add_option(
          "--plot-rules", arguments->plot_rules,
          "the rules whose indicators are drawn; default: the evidence of the first warning")
      ->type_name("RULE")
      ->delimiter(',');
  verb->add_option("--jobs,-j", arguments->jobs, "runs judged at once")
      ->type_name("N")
      ->check(WholeBetween(1, 256))
      ->capture_default_str();
  AddOutputOption(*verb, program);
  verb->footer(
      "The daemon's own code reads, merges and judges the runs, in this process. Labels in an\n"
      "index.json say which runs are healthy and where which fault began (docs/backtest.md);\n"
      "without them everything is shown and nothing is called right or wrong.\n"
      "Exit code: 1 if a verdict is missed or a run cannot be read.\n"
      "Examples:\n"
      "  foreshock rules backtest rules/default.yaml rules/signatures.yaml -c tests/data/captures\n"
      "  foreshock rules backtest my.yaml -c run.fscap --fault-from 400 --plot run.png\n"
      "  foreshock rules backtest my.yaml --data /var/lib/foreshock -r exp-41 exp-42 --healthy\n"
      "  foreshock rules backtest my.yaml -c captures/ -i labels.json -o json");
  verb->callback([&program, arguments] { program.exit_code = Run(program.settings, *arguments); });
}

}  // namespace foreshock::cli
