// foreshock rules calibrate RULES... --healthy RUN...: limits from one's own healthy runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/backtest_runs.h"
#include "client/cli/calibrate_report.h"
#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "client/cli/verb_rules.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/band.h"
#include "daemon/backtest/calibrate.h"
#include "daemon/backtest/capture_steps.h"
#include "daemon/backtest/stored_steps.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::cli {
namespace {

namespace fs = std::filesystem;

struct CalibrateArguments {
  std::vector<std::string> rules;
  std::vector<std::string> healthy;  // captures, folders of them, runs of the store
  std::string data;
  std::string budget = "1 page per 30 days";
  std::optional<double> step_seconds;
  double confidence = 0.95;
  bool allow_sharper = false;
  std::string out;
  std::string band;
  std::string band_align = "step";
  int band_bins = 64;
};

class BothSinks final : public backtest::StepSink {
 public:
  BothSinks(backtest::StepSink* first, backtest::StepSink* second)
      : first_(first), second_(second) {}
  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override {
    first_->BeginAttempt(run, model, attempt);
    second_->BeginAttempt(run, model, attempt);
  }
  void DeclarePlan(uint32_t rank, uint32_t world_size,
                   absl::Span<const v1::PlanEntry> plan) override {
    first_->DeclarePlan(rank, world_size, plan);
    second_->DeclarePlan(rank, world_size, plan);
  }
  void RankGone(uint32_t rank) override {
    first_->RankGone(rank);
    second_->RankGone(rank);
  }
  void SetSilentRanks(std::vector<uint32_t> ranks) override {
    first_->SetSilentRanks(ranks);
    second_->SetSilentRanks(std::move(ranks));
  }
  void Tick(int64_t now_unix_ns) override {
    first_->Tick(now_unix_ns);
    second_->Tick(now_unix_ns);
  }
  void OnStep(const model::ClosedStep& step) override {
    first_->OnStep(step);
    second_->OnStep(step);
  }

 private:
  backtest::StepSink* const first_;
  backtest::StepSink* const second_;
};

class Calibrating {
 public:
  explicit Calibrating(const CalibrateArguments& arguments) : arguments_(arguments) {}

  absl::StatusOr<CalibrateReport> Run(std::shared_ptr<const rules::RuleSet> rules) {
    FORESHOCK_ASSIGN_OR_RETURN(report_.budget, backtest::ParseBudget(arguments_.budget));
    report_.confidence = arguments_.confidence;
    set_ = std::dynamic_pointer_cast<const rules::CompiledRules>(std::move(rules));
    FORESHOCK_RETURN_IF_ERROR(PlanFiles());
    FORESHOCK_RETURN_IF_ERROR(FindHealthy());

    backtest::HealthyHistory healthy(set_);
    backtest::BandMaker band(set_, arguments_.band_align == "step"
                                       ? backtest::BandMaker::Align::kStep
                                       : backtest::BandMaker::Align::kTokens);
    BothSinks both(&healthy, &band);
    for (const BacktestRun& run : work_.runs) {
      FORESHOCK_RETURN_IF_ERROR(Read(run, &both));
      healthy.EndRun();
      band.EndRun();
      report_.runs.push_back(run.name);
    }
    report_.steps = healthy.steps();
    FORESHOCK_ASSIGN_OR_RETURN(const double per_step, AlertsPerStep(healthy));
    report_.calibration = backtest::Calibrate(healthy, {.alerts_per_step = per_step,
                                                        .severity = report_.budget.severity,
                                                        .confidence = arguments_.confidence,
                                                        .allow_sharper = arguments_.allow_sharper});
    FORESHOCK_RETURN_IF_ERROR(CountAfter());
    FORESHOCK_RETURN_IF_ERROR(WriteRules());
    if (!arguments_.band.empty()) {
      FORESHOCK_ASSIGN_OR_RETURN(const std::string text, band.Text(arguments_.band_bins));
      FORESHOCK_RETURN_IF_ERROR(WriteTextFile(arguments_.band, text));
      report_.written.push_back(arguments_.band);
    }
    return std::move(report_);
  }

 private:
  // Which file of rules goes where.
  absl::Status PlanFiles() {
    std::vector<std::string> files;
    for (size_t i = 0; i < set_->rules.size(); ++i) {
      const std::string& file = set_->infos()[i].file();
      if (files.empty() || files.back() != file) files.push_back(file);
    }
    if (arguments_.out.empty()) return absl::OkStatus();
    std::error_code error;
    const bool folder = fs::is_directory(arguments_.out, error);
    if (files.size() > 1 && !folder) {
      return absl::InvalidArgumentError(
          absl::StrCat("--write ", arguments_.out, ": ", files.size(),
                       " of the files have rules; name an existing folder to write them into"));
    }
    for (const std::string& file : files) {
      plan_.emplace_back(file, folder
                                   ? (fs::path(arguments_.out) / fs::path(file).filename()).string()
                                   : arguments_.out);
    }
    return absl::OkStatus();
  }

  absl::Status FindHealthy() {
    BacktestArguments find;
    find.data = arguments_.data;
    for (const std::string& item : arguments_.healthy) {
      std::error_code error;
      if (fs::exists(item, error)) {
        find.captures.push_back(item);
      } else if (!arguments_.data.empty()) {
        find.runs.push_back(item);
      } else {
        return absl::NotFoundError(absl::StrCat(
            "--healthy ", item,
            ": no such file or folder; for a run of the store give --data DIR as well"));
      }
    }
    FORESHOCK_ASSIGN_OR_RETURN(work_, FindRuns(find));
    for (const BacktestRun& run : work_.runs) {
      if (run.label.has_value() && run.label->expected == backtest::RunLabel::Expected::kAlarm) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--healthy: the index.json beside ", run.source, " says that this run has a fault"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Read(const BacktestRun& run, backtest::StepSink* sink) {
    Progress progress(run.name, 0);
    const backtest::StepProgress show = [&progress](uint64_t done, uint64_t, int64_t step) {
      progress.Update(done, absl::StrCat("step ", step));
    };
    const absl::Status status =
        run.stored ? backtest::ReadStoredSteps(*work_.store, run.source, show, sink)
                   : backtest::ReadCaptureSteps(run.source, show, sink).status();
    progress.Finish();
    return base::Annotate(status, run.source);
  }

  absl::StatusOr<double> AlertsPerStep(const backtest::HealthyHistory& healthy) {
    const backtest::Budget& budget = report_.budget;
    const std::optional<double> seconds =
        arguments_.step_seconds.has_value() ? arguments_.step_seconds : healthy.step_seconds();
    report_.step_seconds = seconds.value_or(0);
    if (budget.steps > 0) return budget.alerts / budget.steps;
    if (seconds.has_value()) return budget.alerts / budget.seconds * *seconds;
    return absl::InvalidArgumentError(absl::StrCat(
        "the budget \"", arguments_.budget,
        "\" is in time, but the runs do not say how long a step takes; give --step-seconds, or a "
        "budget per steps"));
  }

  absl::Status CountAfter() {
    const auto calibrated = backtest::WithLimits(*set_, report_.calibration);
    for (const BacktestRun& run : work_.runs) {
      backtest::Backtest backtest(calibrated);
      FORESHOCK_RETURN_IF_ERROR(Read(run, &backtest));
      for (const backtest::AlertSpan& span : backtest.Finish().alerts) {
        const bool counts = report_.budget.severity == "info" || span.severity == "critical" ||
                            span.severity == report_.budget.severity;
        report_.alerts_after += counts ? 1 : 0;
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteRules() {
    std::vector<std::pair<std::string, std::string>> texts;
    for (const auto& [from, to] : plan_) {
      FORESHOCK_ASSIGN_OR_RETURN(std::string changed,
                                 backtest::CalibratedFile(from, report_.calibration));
      texts.emplace_back(to, std::move(changed));
    }
    for (const auto& [to, text] : texts) {
      FORESHOCK_RETURN_IF_ERROR(WriteTextFile(to, text));
      report_.written.push_back(to);
    }
    return absl::OkStatus();
  }

  const CalibrateArguments& arguments_;
  CalibrateReport report_;
  std::shared_ptr<const rules::CompiledRules> set_;
  std::vector<std::pair<std::string, std::string>> plan_;  // file of rules, file to write
  BacktestWork work_;
};

int RunCalibrate(const Settings& settings, const CalibrateArguments& arguments) {
  const auto rules = rules::LoadRules(arguments.rules);
  if (!rules.ok()) return PrintRuleErrors("calibrate", rules.status(), settings.output);
  const auto report = Calibrating(arguments).Run(*rules);
  if (!report.ok()) {
    SayErrorLines(absl::StrCat("foreshock rules calibrate: ", report.status().message(), "\n"));
    return absl::IsInvalidArgument(report.status()) ? kUsage : kFinding;
  }
  settings.output == Output::kJson ? PrintCalibrationAsJson(*report) : PrintCalibration(*report);
  return kOk;
}

}  // namespace

void AddRulesCalibrate(CLI::App& rules, Program& program) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* verb = rules.add_subcommand(
      "calibrate", "Set limits from healthy runs, so that false pages keep a budget");
  verb->add_option("RULES", arguments->rules, "rule files, read as one set")->required();
  verb->add_option(
          "--healthy", arguments->healthy,
          "runs without a fault: captures, folders of them, or runs of the store in --data")
      ->type_name("FILE|DIR|RUN")
      ->required();
  verb->add_option("--data", arguments->data,
                   "a daemon's data directory; read only, also while the daemon runs")
      ->type_name("DIR");
  verb->add_option("--budget", arguments->budget,
                   "how many false pages (or warnings, or alerts) per days, weeks or steps")
      ->type_name("TEXT")
      ->capture_default_str();
  verb->add_option("--step-seconds", arguments->step_seconds,
                   "wall time of a step, for a budget in time; default: as the runs show")
      ->check(NumberBetween(1e-6, 1e6))
      ->type_name("SECONDS");
  verb->add_option("--confidence", arguments->confidence, "of the bounds")
      ->check(NumberBetween(0.5, 0.999))
      ->type_name("SHARE")
      ->capture_default_str();
  verb->add_flag("--allow-sharper", arguments->allow_sharper,
                 "limits may also become more sensitive than they are");
  verb->add_option("--write,-w", arguments->out,
                   "write the rules with their new limits; a folder if several files have rules")
      ->type_name("FILE|DIR");
  verb->add_option("--band", arguments->band,
                   "also write the band of the healthy runs, for baselines of kind reference")
      ->type_name("FILE");
  verb->add_option("--band-align", arguments->band_align, "positions of the band: step or tokens")
      ->check(CLI::IsMember({"step", "tokens"}).description(""))
      ->type_name("WORD")
      ->capture_default_str();
  verb->add_option("--band-bins", arguments->band_bins, "points of a series in the band")
      ->check(WholeBetween(1, 10'000))
      ->type_name("N")
      ->capture_default_str();
  AddOutputOption(*verb, program);
  verb->footer(
      "The daemon's own code judges the runs. Of the rules that can lead to a page, as many as "
      "are\n"
      "needed get a share of the budget, and the limit at which they keep it; how, and how far to\n"
      "trust it, is in docs/calibration.md. The exit code is 0 also when the history is too short\n"
      "for the budget: the table says so.\n"
      "Examples:\n"
      "  foreshock rules calibrate rules/*.yaml --healthy good.fscap --budget \"1 per 1e6 steps\"\n"
      "  foreshock rules calibrate rules/default.yaml rules/signatures.yaml --data "
      "/var/lib/foreshock \\\n"
      "      --healthy exp-41 exp-42 --budget \"1 page per 30 days\" --write my_default.yaml");
  verb->callback(
      [&program, arguments] { program.exit_code = RunCalibrate(program.settings, *arguments); });
}

}  // namespace foreshock::cli
