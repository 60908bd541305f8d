#include "daemon/rules/prometheus.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "daemon/base/check.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/rule.h"

namespace foreshock::rules {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string Quoted(absl::string_view text) {
  return absl::StrCat(
      "\"",
      absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}, {"\t", "\\t"}}),
      "\"");
}

// Our placeholders that are labels become Prometheus' own. Empty when the text needs what only the
// daemon knows (step, value, layers, ...).
std::string Template(std::string text, absl::string_view rule, absl::string_view fault,
                     absl::string_view indicator) {
  const Fields known = {{"{{run}}", "\x01 $labels.run \x02"},
                        {"{{severity}}", "\x01 $labels.severity \x02"},
                        {"{{rule}}", std::string(rule)},
                        {"{{fault}}", std::string(fault)},
                        {"{{indicator}}", std::string(indicator)}};
  absl::StrReplaceAll(known, &text);
  if (text.find("{{") != std::string::npos) return "";
  absl::StrReplaceAll({{"\x01", "{{"}, {"\x02", "}}"}}, &text);
  return text;
}

// What a rule and a signature have in common.
struct Judged {
  const std::string& name;
  int severity_max = 0;  // the highest that it can have, by SeverityRank
  const std::string& fault;
  const Fields& labels;
  const Annotations& annotations;
  std::string measure;
};

class Writer {
 public:
  void Group(absl::string_view name, absl::string_view comment) {
    absl::StrAppend(&text_, "\n", comment, "  - name: ", name, "\n    rules:\n");
    empty_ = true;
  }
  void EndGroup() {
    if (empty_) absl::StrAppend(&text_, "      []\n");
  }
  void Record(absl::string_view name, absl::string_view expression) {
    absl::StrAppend(&text_, "      - record: ", name, "\n        expr: ", Quoted(expression), "\n");
    empty_ = false;
  }
  void Alert(const Judged& judged, const PromqlAlert& alert, const Fields& labels) {
    absl::StrAppend(&text_, "      - alert: ", judged.name,
                    "\n        expr: ", Quoted(alert.expression), "\n");
    if (alert.for_seconds > 0) {
      absl::StrAppend(&text_, "        for: ", PromqlDuration(alert.for_seconds), "\n");
    }
    if (alert.keep_firing_seconds > 0) {
      absl::StrAppend(&text_,
                      "        keep_firing_for: ", PromqlDuration(alert.keep_firing_seconds), "\n");
    }
    Map("labels", labels);
    Map("annotations", Annotate(judged));
    empty_ = false;
  }
  void Comment(absl::string_view text) { absl::StrAppend(&text_, "      # ", text, "\n"); }
  std::string text_;

 private:
  void Map(absl::string_view key, const Fields& fields) {
    absl::StrAppend(&text_, "        ", key, ":\n");
    for (const auto& [name, value] : fields) {
      absl::StrAppend(&text_, "          ", name, ": ", Quoted(value), "\n");
    }
  }

  static Fields Annotate(const Judged& judged) {
    Fields fields;
    std::string summary =
        Template(judged.annotations.summary, judged.name, judged.fault, judged.measure);
    if (summary.empty()) {
      summary = absl::StrCat("Run {{ $labels.run }}: ", judged.name,
                             judged.measure.empty() ? "" : absl::StrCat(" (", judged.measure, ")"));
      if (!judged.fault.empty()) absl::StrAppend(&summary, ", probable fault ", judged.fault);
    }
    fields.emplace_back("summary", std::move(summary));
    std::string description =
        Template(judged.annotations.description, judged.name, judged.fault, judged.measure);
    absl::StrAppend(&description, description.empty() ? "" : " ",
                    "Step, layers and evidence: foreshock alerts --run {{ $labels.run }}");
    fields.emplace_back("description", std::move(description));
    if (!judged.annotations.runbook.empty()) {
      fields.emplace_back("runbook", judged.annotations.runbook);
    }
    return fields;
  }

  bool empty_ = true;
};

Judged Of(const Rule& rule) {
  return {rule.name,        SeverityRank(rule.severity), rule.fault, rule.labels, rule.annotations,
          MeasureText(rule)};
}
Judged Of(const Signature& signature) {
  int severity = SeverityRank(signature.severity);
  for (const Confirmation& confirmation : signature.confirmations) {
    severity = std::max(severity, SeverityRank(confirmation.severity));
  }
  return {signature.name, severity, signature.fault, signature.labels, signature.annotations, ""};
}

// `,severity=~"warning|critical"`
std::string SeverityMatcher(absl::string_view severity_min) {
  std::vector<std::string> allowed;
  for (const char* severity : {"info", "warning", "critical"}) {
    if (SeverityRank(severity) >= SeverityRank(severity_min)) allowed.emplace_back(severity);
  }
  if (allowed.size() == 3) return "";
  return absl::StrCat(",severity=~\"", absl::StrJoin(allowed, "|"), "\"");
}

// The labels are those that the notifier `alertmanager` gives the alert: for Alertmanager it is the
// same one. Severity and fault are labels of the gauge, for a severity may rise while the alert
// fires.
void WriteDaemonAlert(const Judged& judged, const PromqlOptions& options, Writer* writer) {
  if (judged.severity_max < SeverityRank(options.severity_min)) return;
  Fields labels = {{"evaluation", "daemon"}};
  labels.insert(labels.end(), judged.labels.begin(), judged.labels.end());
  PromqlAlert alert;
  alert.expression =
      absl::StrCat("max by (run, severity, fault) (foreshock_alert_firing{rule=\"", judged.name,
                   "\"", SeverityMatcher(options.severity_min), "}) == 1");
  alert.keep_firing_seconds = options.keep_firing_seconds;
  writer->Alert(judged, alert, labels);
}

void WriteCentralAlert(const Rule& rule, const PromqlOptions& options, Writer* writer) {
  if (SeverityRank(rule.severity) < SeverityRank(options.severity_min)) return;
  const absl::StatusOr<PromqlAlert> alert = RuleToPromql(rule, options);
  if (!alert.ok()) {
    writer->Comment(absl::StrCat(rule.name, ": not here, ", alert.status().message()));
    return;
  }
  for (const auto& [name, expression] : alert->records) writer->Record(name, expression);
  Fields labels = {{"evaluation", "central"}, {"rule", rule.name}, {"severity", rule.severity}};
  if (!rule.fault.empty()) labels.emplace_back("fault", rule.fault);
  labels.insert(labels.end(), rule.labels.begin(), rule.labels.end());
  writer->Alert(Of(rule), *alert, labels);
}

}  // namespace

std::string PrometheusRules(const RuleSet& rules, const PromqlOptions& options,
                            absl::string_view command) {
  const auto* set = dynamic_cast<const CompiledRules*>(&rules);
  FORESHOCK_CHECK(set != nullptr);
  Writer writer;
  absl::StrAppend(&writer.text_, "# Made by: ", command,
                  "\n# Do not edit: change the rules and export again.\n\ngroups:");
  writer.Group("foreshock_daemon",
               "  # What the daemon has judged, in steps. Exact, and enough by itself where the\n"
               "  # daemon's metrics are scraped.\n");
  for (const auto& rule : set->rules) WriteDaemonAlert(Of(*rule), options, &writer);
  for (const auto& signature : set->signatures) {
    WriteDaemonAlert(Of(*signature), options, &writer);
  }
  writer.EndGroup();

  writer.Group(
      "foreshock_central",
      absl::StrFormat(
          "  # AN APPROXIMATION: the same rules judged again by Prometheus, in wall time. Steps "
          "count as\n"
          "  # %g s, samples of weights, gates and tensors as %d steps; before step %d nothing is "
          "judged.\n"
          "  # Baselines are neither frozen while something is wrong nor re-based after a planned\n"
          "  # change, k of n hits are k in a row, and `clear` is not known.\n",
          options.step_seconds, options.sample_steps, options.warm_up_steps));
  for (const auto& rule : set->rules) WriteCentralAlert(*rule, options, &writer);
  for (const auto& signature : set->signatures) {
    if (Of(*signature).severity_max < SeverityRank(options.severity_min)) continue;
    writer.Comment(absl::StrCat(signature->name,
                                ": not here, a signature needs the order of its alerts in steps"));
  }
  writer.EndGroup();
  return std::move(writer.text_);
}

}  // namespace foreshock::rules
