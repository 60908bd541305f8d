#include "client/cli/backtest_report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

template <typename Number>
std::string OrDash(const std::optional<Number>& number) {
  return number.has_value() ? absl::StrCat(*number) : "-";
}

std::string YesNo(const std::optional<bool>& named) {
  return !named.has_value() ? "-" : *named ? "yes" : "no";
}

std::string Rate(double per_ten_thousand) { return absl::StrFormat("%.2f", per_ten_thousand); }

Style StyleOf(const std::string& severity) {
  return severity == "critical"  ? Style::kRed
         : severity == "warning" ? Style::kYellow
                                 : Style::kPlain;
}

std::string VerdictText(const backtest::RunVerdict& verdict, const Terminal& out) {
  switch (verdict.kind) {
    case backtest::RunVerdict::Kind::kNone:
      return "-";
    case backtest::RunVerdict::Kind::kShown:
      return "shown";
    case backtest::RunVerdict::Kind::kHolds:
      return out.Paint(Style::kGreen, "holds");
    case backtest::RunVerdict::Kind::kMissed:
      return out.Paint(Style::kRed, absl::StrCat("missed: ", verdict.reason));
  }
  return "";
}

std::vector<backtest::JudgedRun> Judged(const BacktestWork& work) {
  std::vector<backtest::JudgedRun> runs;
  for (const BacktestRun& run : work.runs) {
    if (run.status.ok()) runs.push_back({&run.result, &run.verdict});
  }
  return runs;
}

void PrintOutcomes(const BacktestWork& work, const Terminal& out) {
  Table table({{"run"},
               {"alert"},
               {"first", Align::kRight},
               {"severity"},
               {"where"},
               {"lead", Align::kRight},
               {"times", Align::kRight},
               {"healthy", Align::kRight},
               {"named"}});
  for (const BacktestRun& run : work.runs) {
    for (const backtest::RuleOutcome& outcome : run.verdict.outcomes) {
      table.AddRow({run.name, outcome.rule, absl::StrCat(outcome.first_step),
                    out.Paint(StyleOf(outcome.severity), outcome.severity),
                    FormatWhere(run.result.alerts[outcome.first_alert].last),
                    OrDash(outcome.lead_steps), absl::StrCat(outcome.alerts),
                    run.verdict.healthy_known ? absl::StrCat(outcome.healthy_alerts) : "-",
                    YesNo(outcome.named)});
    }
  }
  if (!table.empty()) SayLines(absl::StrCat(table.Render(out), "\n"));
}

void PrintRules(const std::vector<backtest::SplitSummary>& splits, const Terminal& out) {
  Table table({{"split"},
               {"alert"},
               {"severity"},
               {"in faults", Align::kRight},
               {"named", Align::kRight},
               {"median lead", Align::kRight},
               {"healthy", Align::kRight},
               {"per 10 000", Align::kRight}});
  for (const backtest::SplitSummary& split : splits) {
    if (split.faulty + split.quiet == 0) continue;  // without labels each run's own rows say it all
    for (const backtest::SplitSummary::OfRule& rule : split.rules) {
      const bool known = split.healthy_steps > 0;
      table.AddRow(
          {split.split.empty() ? "-" : split.split, rule.rule,
           out.Paint(StyleOf(rule.severity), rule.severity),
           split.faulty == 0 ? "-" : absl::StrCat(rule.faults_seen, " of ", split.faulty),
           rule.nameable == 0 ? "-" : absl::StrCat(rule.named, " of ", rule.nameable),
           OrDash(rule.median_lead_steps), known ? absl::StrCat(rule.healthy_alerts) : "-",
           known ? Rate(backtest::PerTenThousand(rule.healthy_alerts, split.healthy_steps)) : "-"});
    }
  }
  if (!table.empty()) SayLines(absl::StrCat(table.Render(out), "\n"));
}

bool KnowsLayers(const BacktestRun& run) {
  return run.label.has_value() && !run.label->layers.empty();
}
bool KnowsHarm(const BacktestRun& run) {
  return run.label.has_value() && run.label->harm_step.has_value();
}

void PrintRuns(const BacktestWork& work, const Terminal& out) {
  const bool harm = absl::c_any_of(work.runs, KnowsHarm);
  const bool layers = absl::c_any_of(work.runs, KnowsLayers);
  std::vector<Table::Column> columns = {{"split"},
                                        {"run"},
                                        {"steps", Align::kRight},
                                        {"injected", Align::kRight},
                                        {"loss break", Align::kRight}};
  if (harm) columns.push_back({"harm", Align::kRight});
  columns.insert(columns.end(), {{"first warning", Align::kRight},
                                 {"fault"},
                                 {"where"},
                                 {"severity"},
                                 {"lead", Align::kRight},
                                 {"named"}});
  if (layers) columns.push_back({"layer"});
  columns.push_back({"verdict"});
  Table table(std::move(columns));
  for (const BacktestRun& run : work.runs) {
    if (!run.status.ok()) continue;
    const backtest::RunVerdict& verdict = run.verdict;
    std::vector<std::string> row = {verdict.split.empty() ? "-" : verdict.split, run.name,
                                    absl::StrCat(run.result.steps.size()),
                                    OrDash(verdict.injection_step),
                                    OrDash(verdict.loss_break_step)};
    if (harm) row.push_back(OrDash(verdict.harm_step));
    if (verdict.first_warning.has_value()) {
      const backtest::AlertSpan& span = run.result.alerts[*verdict.first_warning];
      row.insert(row.end(),
                 {absl::StrCat(span.warning->step),
                  span.first.fault().empty() ? span.first.rule() : span.first.fault(),
                  FormatWhere(span.last), out.Paint(StyleOf(span.severity), span.severity)});
    } else {
      row.insert(row.end(), {"-", "-", "-", "-"});
    }
    row.insert(row.end(), {OrDash(verdict.lead_steps), YesNo(verdict.named)});
    if (layers) row.push_back(YesNo(verdict.layers_right));
    row.push_back(VerdictText(verdict, out));
    table.AddRow(std::move(row));
  }
  if (!table.empty()) SayLines(absl::StrCat(table.Render(out), "\n"));
}

void PrintSplit(const backtest::SplitSummary& split, const Terminal& out) {
  const uint64_t scored = split.faulty + split.quiet;
  std::string text;
  if (scored == 0) {
    text = absl::StrCat("no verdict: ", Plural(split.runs, "run"), ", ",
                        Plural(split.warnings, "warning"), " in ", FormatCount(split.steps),
                        " steps (", Rate(backtest::PerTenThousand(split.warnings, split.steps)),
                        " per 10 000)");
    if (split.split.empty()) {
      absl::StrAppend(&text, "; which of them are false, only labels can say (--index)");
    }
  } else {
    text = absl::StrCat(scored - split.missed, " of ", Plural(scored, "verdict"),
                        " hold: ", split.in_time, " of ", Plural(split.faulty, "fault"),
                        " warned of in time");
    if (split.nameable > 0) {
      absl::StrAppend(&text, ", ", split.named, " of ", split.nameable, " named right");
    }
    if (split.layered > 0) {
      absl::StrAppend(&text, ", layers right in ", split.layers_right, " of ", split.layered);
    }
    if (split.median_lead_steps.has_value()) {
      const int64_t lead = *split.median_lead_steps;  // below 0: the warning came after the break
      absl::StrAppend(&text, ", median lead ", lead < 0 ? "-" : "", Plural(std::abs(lead), "step"));
    }
    absl::StrAppend(
        &text, "; ", split.silent, " of ", Plural(split.quiet, "quiet run"), " silent; ",
        Plural(split.false_alarms, "false alarm"), " (", split.false_critical, " critical) in ",
        FormatCount(split.healthy_steps),
        " healthy steps: ", Rate(backtest::PerTenThousand(split.false_alarms, split.healthy_steps)),
        " per 10 000, at most ",
        Rate(backtest::PerTenThousandUpper(split.false_alarms, split.healthy_steps)),
        " with 95 % confidence");
  }
  const bool good = split.missed == 0;
  Say("%s %s: %s\n",
      scored == 0 ? " " : out.Paint(good ? Style::kGreen : Style::kRed, good ? "✓" : "✗"),
      out.Paint(Style::kBold, split.split.empty() ? "without labels" : split.split), text);
}

nlohmann::json ToJson(const std::optional<int64_t>& step) {
  return step.has_value() ? nlohmann::json(*step) : nlohmann::json(nullptr);
}
nlohmann::json ToJson(const std::optional<bool>& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json(nullptr);
}
nlohmann::json ToJson(const std::optional<backtest::AlertSpan::Moment>& moment) {
  return moment.has_value() ? nlohmann::json(moment->step) : nlohmann::json(nullptr);
}

nlohmann::json ToJson(const backtest::AlertSpan& span) {
  nlohmann::json layers = nlohmann::json::array();
  for (const uint32_t layer : span.last.layers()) layers.push_back(layer);
  return {
      {"rule", span.first.rule()},
      {"fault", span.first.fault()},
      {"severity", span.severity},
      {"attempt", span.first.attempt()},
      {"pending_step", span.first.pending_step()},
      {"firing_step", span.first.firing_step()},
      {"warning_step", ToJson(span.warning)},
      {"critical_step", ToJson(span.critical)},
      {"resolved_step", span.last.has_resolved_step() ? nlohmann::json(span.last.resolved_step())
                                                      : nlohmann::json(nullptr)},
      {"last_healthy_step", span.first.last_healthy_step()},
      {"layers", layers},
      {"all_layers", span.last.all_layers()},
      {"rank", span.last.has_rank() ? nlohmann::json(span.last.rank()) : nlohmann::json(nullptr)},
      {"where", FormatWhere(span.last)},
      {"summary", span.first.summary()}};
}

nlohmann::json ToJson(const backtest::RuleOutcome& outcome) {
  return {{"rule", outcome.rule},
          {"signature", outcome.signature},
          {"fault", outcome.fault},
          {"severity", outcome.severity},
          {"first_step", outcome.first_step},
          {"first_step_after_injection", ToJson(outcome.fault_step)},
          {"lead_steps", ToJson(outcome.lead_steps)},
          {"times", outcome.alerts},
          {"healthy_times", outcome.healthy_alerts},
          {"named", ToJson(outcome.named)}};
}

const char* KindName(backtest::RunVerdict::Kind kind) {
  switch (kind) {
    case backtest::RunVerdict::Kind::kNone:
      return "none";
    case backtest::RunVerdict::Kind::kShown:
      return "shown";
    case backtest::RunVerdict::Kind::kHolds:
      return "holds";
    case backtest::RunVerdict::Kind::kMissed:
      return "missed";
  }
  return "";
}

nlohmann::json JudgingOf(const backtest::RunResult& result) {
  nlohmann::json rules = nlohmann::json::array();
  for (const v1::RuleJudging& rule : result.judging) {
    rules.push_back(nlohmann::json::parse(cli::ToJson(rule)));
  }
  return rules;
}

// Rules whose series came in none of the runs.
std::vector<std::string> NeverSeen(const BacktestWork& work) {
  std::vector<std::string> never;
  const backtest::RunResult* some = nullptr;
  for (const BacktestRun& run : work.runs) {
    if (run.status.ok() && !run.result.judging.empty()) some = &run.result;
  }
  if (some == nullptr) return never;
  for (size_t i = 0; i < some->judging.size(); ++i) {
    const bool seen = std::any_of(work.runs.begin(), work.runs.end(), [i](const BacktestRun& run) {
      const auto& judging = run.result.judging;
      return i < judging.size() && (judging[i].series() > 0 || judging[i].rows() > 0);
    });
    if (!seen) never.push_back(some->judging[i].rule());
  }
  return never;
}

nlohmann::json ToJson(const BacktestRun& run) {
  const backtest::RunVerdict& verdict = run.verdict;
  nlohmann::json alerts = nlohmann::json::array();
  for (const backtest::AlertSpan& span : run.result.alerts) alerts.push_back(ToJson(span));
  nlohmann::json rules = nlohmann::json::array();
  for (const backtest::RuleOutcome& outcome : verdict.outcomes) rules.push_back(ToJson(outcome));
  nlohmann::json json = {{"name", run.name},
                         {"source", run.source},
                         {"stored", run.stored},
                         {"run", run.result.run},
                         {"split", verdict.split},
                         {"attempts", run.result.attempts},
                         {"steps", run.result.steps.size()},
                         {"samples", run.result.samples},
                         {"judging_seconds", run.result.judging_seconds},
                         {"injected_fault", verdict.fault},
                         {"injection_step", ToJson(verdict.injection_step)},
                         {"loss_break_step", ToJson(verdict.loss_break_step)},
                         {"computed_loss_break_step", ToJson(run.result.loss_break_step)},
                         {"first_warning", nullptr},
                         {"lead_steps", ToJson(verdict.lead_steps)},
                         {"named", ToJson(verdict.named)},
                         {"harm_step", ToJson(verdict.harm_step)},
                         {"layers_right", ToJson(verdict.layers_right)},
                         {"healthy_steps", nullptr},
                         {"false_alarms", nullptr},
                         {"false_critical", nullptr},
                         {"verdict", KindName(verdict.kind)},
                         {"reason", verdict.reason},
                         {"rules", rules},
                         {"alerts", alerts},
                         {"judged", nlohmann::json::parse(cli::ToJson(run.result.judged))},
                         {"judging", JudgingOf(run.result)},
                         {"notes", run.notes},
                         {"plot", run.plot}};
  if (verdict.first_warning.has_value()) {
    json["first_warning"] = ToJson(run.result.alerts[*verdict.first_warning]);
  }
  if (verdict.healthy_known) {
    json["healthy_steps"] = verdict.healthy_steps;
    json["false_alarms"] = verdict.false_alarms;
    json["false_critical"] = verdict.false_critical;
  }
  return json;
}

nlohmann::json ToJson(const backtest::SplitSummary& split) {
  nlohmann::json rules = nlohmann::json::array();
  for (const backtest::SplitSummary::OfRule& rule : split.rules) {
    rules.push_back({{"rule", rule.rule},
                     {"signature", rule.signature},
                     {"severity", rule.severity},
                     {"faults_seen", rule.faults_seen},
                     {"named_right", rule.named},
                     {"named_of", rule.nameable},
                     {"median_lead_steps", ToJson(rule.median_lead_steps)},
                     {"healthy_times", rule.healthy_alerts},
                     {"healthy_times_per_10000_steps",
                      backtest::PerTenThousand(rule.healthy_alerts, split.healthy_steps)}});
  }
  return {{"split", split.split},
          {"runs", split.runs},
          {"steps", split.steps},
          {"warnings", split.warnings},
          {"verdicts", split.faulty + split.quiet},
          {"verdicts_missed", split.missed},
          {"faulty_runs", split.faulty},
          {"warned_in_time", split.in_time},
          {"named_right", split.named},
          {"named_of", split.nameable},
          {"layers_right", split.layers_right},
          {"layers_of", split.layered},
          {"median_lead_steps", ToJson(split.median_lead_steps)},
          {"quiet_runs", split.quiet},
          {"silent", split.silent},
          {"healthy_steps", split.healthy_steps},
          {"false_alarms", split.false_alarms},
          {"false_critical", split.false_critical},
          {"false_alarms_per_10000_steps",
           backtest::PerTenThousand(split.false_alarms, split.healthy_steps)},
          {"false_alarms_per_10000_steps_upper95",
           backtest::PerTenThousandUpper(split.false_alarms, split.healthy_steps)},
          {"rules", rules}};
}

}  // namespace

void PrintBacktest(const rules::RuleSet& rules, const BacktestWork& work) {
  const Terminal out(stdout);
  const std::vector<backtest::SplitSummary> splits = backtest::SummariseRuns(rules, Judged(work));
  PrintOutcomes(work, out);
  PrintRules(splits, out);
  PrintRuns(work, out);
  for (const BacktestRun& run : work.runs) {
    for (const std::string& note : run.notes) Say("  %s: %s\n", run.name, note);
    if (run.status.ok() && !run.plot.empty()) {
      Say("  %s: drawn into %s\n", run.name, run.plot);
    }
  }
  if (const std::vector<std::string> never = NeverSeen(work); !never.empty()) {
    Say("  not judged, for no value of their series has come in any run: %s\n",
        absl::StrJoin(never, ", "));
  }
  for (const backtest::SplitSummary& split : splits) PrintSplit(split, out);
}

void PrintBacktestAsJson(const BacktestArguments& arguments, const rules::RuleSet& rules,
                         const BacktestWork& work) {
  nlohmann::json runs = nlohmann::json::array();
  nlohmann::json errors = nlohmann::json::array();
  for (const BacktestRun& run : work.runs) {
    if (run.status.ok()) {
      runs.push_back(ToJson(run));
    } else {
      errors.push_back({{"name", run.name}, {"error", std::string(run.status.message())}});
    }
  }
  nlohmann::json splits = nlohmann::json::array();
  for (const backtest::SplitSummary& split : backtest::SummariseRuns(rules, Judged(work))) {
    splits.push_back(ToJson(split));
  }
  const nlohmann::json answer = {{"rules", arguments.rules},
                                 {"runs", runs},
                                 {"splits", splits},
                                 {"not_given", work.not_given},
                                 {"errors", errors}};
  SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
}

}  // namespace foreshock::cli
