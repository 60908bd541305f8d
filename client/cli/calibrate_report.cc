#include "client/cli/calibrate_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/format.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

using Role = backtest::RuleCalibration::Role;

const char* RoleName(Role role) {
  return role == Role::kGuard ? "guard" : role == Role::kEvidence ? "evidence" : "no limit";
}

// Three digits; from a thousand on all of them, for %g would write 2e+03.
std::string RateText(const std::optional<double>& rate) {
  if (!rate.has_value()) return "?";
  return *rate < 1000 ? absl::StrFormat("%.3g", *rate)
                      : FormatCount(static_cast<uint64_t>(std::llround(*rate)));
}

std::string AlertWord(const backtest::Budget& budget, size_t count) {
  const char* word = budget.severity == "critical"  ? "page"
                     : budget.severity == "warning" ? "warning"
                                                    : "alert";
  return Plural(count, word);
}

}  // namespace

void PrintCalibration(const CalibrateReport& report) {
  const Terminal out(stdout);
  Table table({{"rule"},
               {"role"},
               {"samples", Align::kRight},
               {"worst healthy", Align::kRight},
               {"limit", Align::kRight},
               {"new limit", Align::kRight},
               {"alerts/1e6 steps", Align::kRight},
               {"at most", Align::kRight}});
  for (const backtest::RuleCalibration& rule : report.calibration.rules) {
    const bool has_limit = rule.role != Role::kNoLimit;
    table.AddRow(
        {rule.rule, RoleName(rule.role), FormatCount(rule.samples),
         rule.worst.has_value() ? FormatValue(*rule.worst) : "-",
         has_limit ? absl::StrFormat("%.6g", rule.limit_before) : "-",
         rule.changed() ? out.Paint(Style::kYellow, absl::StrFormat("%.6g", rule.limit)) : "-",
         RateText(rule.rate), RateText(rule.rate_bound)});
  }
  SayLines(table.Render(out));

  const backtest::Calibration& found = report.calibration;
  Say("\nBudget: %.3g alerts of severity %s in 1e6 steps, shared by %s.\n",
      1e6 * found.alerts_per_step, report.budget.severity, Plural(found.guards, "guard"));
  Say("History: %s steps of %s. By itself it shows no rate under %s in 1e6 steps; what is rarer\n"
      "is extrapolated. \"At most\" holds with %.0f %% confidence (docs/calibration.md).\n",
      FormatCount(report.steps), Plural(report.runs.size(), "run"),
      RateText(1e6 * found.rate_shown), 100 * report.confidence);
  const bool changed =
      std::any_of(found.rules.begin(), found.rules.end(),
                  [](const backtest::RuleCalibration& rule) { return rule.changed(); });
  Say("%s these runs have %s.\n",
      changed ? "With the new limits" : "No limit was changed; as they are,",
      AlertWord(report.budget, report.alerts_after));
  for (const backtest::RuleCalibration& rule : found.rules) {
    if (rule.role != Role::kGuard) continue;
    Say("  %s: %s\n", rule.rule, rule.reason);
  }
  for (const std::string& route : found.routes_unguarded) {
    Say("  not kept by any limit: %s\n", route);
  }
  for (const std::string& file : report.written) Say("Written: %s\n", file);
}

void PrintCalibrationAsJson(const CalibrateReport& report) {
  const auto number = [](const std::optional<double>& value) {
    return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
  };
  nlohmann::json rules = nlohmann::json::array();
  for (const backtest::RuleCalibration& rule : report.calibration.rules) {
    nlohmann::json row = {{"rule", rule.rule},
                          {"role", RoleName(rule.role)},
                          {"samples", rule.samples},
                          {"steps", rule.steps},
                          {"excursions", rule.excursions},
                          {"worst_healthy", number(rule.worst)},
                          {"changed", rule.changed()},
                          {"alerts_per_1e6_steps", number(rule.rate)},
                          {"alerts_per_1e6_steps_bound", number(rule.rate_bound)},
                          {"reason", rule.reason}};
    if (rule.role != Role::kNoLimit) {
      row["limit_before"] = rule.limit_before;
      row["limit"] = rule.limit;
      row["clear_before"] = rule.clear_before;
      row["clear"] = rule.clear;
    }
    rules.push_back(std::move(row));
  }
  const nlohmann::json answer = {
      {"severity", report.budget.severity},
      {"budget_per_1e6_steps", 1e6 * report.calibration.alerts_per_step},
      {"confidence", report.confidence},
      {"step_seconds",
       report.step_seconds > 0 ? nlohmann::json(report.step_seconds) : nlohmann::json()},
      {"runs", report.runs},
      {"steps", report.steps},
      {"shown_by_history_per_1e6_steps", 1e6 * report.calibration.rate_shown},
      {"guards", report.calibration.guards},
      {"alerts_in_history_after", report.alerts_after},
      {"not_kept_by_any_limit", report.calibration.routes_unguarded},
      {"written", report.written},
      {"rules", rules}};
  SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
}

}  // namespace foreshock::cli
