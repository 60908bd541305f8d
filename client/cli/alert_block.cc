#include "client/cli/alert_block.h"

#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/firing.h"
#include "client/cli/format.h"

namespace foreshock::cli {
namespace {

constexpr size_t kLabelWidth = 11;

Style StyleOf(const v1::Alert& alert) {
  if (alert.state() == v1::ALERT_STATE_RESOLVED) return Style::kGreen;
  return SeverityStyle(alert.severity());
}

std::string Since(const v1::Alert& alert) {
  std::string text = absl::StrCat("began at step ", alert.pending_step());
  if (alert.has_firing_step()) absl::StrAppend(&text, ", fired at step ", alert.firing_step());
  if (alert.has_resolved_step()) {
    absl::StrAppend(&text, ", resolved at step ", alert.resolved_step());
  }
  return text;
}

std::string ValueAgainstBaseline(const v1::Alert& alert) {
  std::string text = absl::StrCat(alert.indicator(), " = ", FormatValue(alert.value()));
  if (alert.has_worst_step()) absl::StrAppend(&text, " at worst, at step ", alert.worst_step());
  if (!alert.has_baseline()) return text;
  absl::StrAppend(&text, ", baseline ", FormatValue(alert.baseline()));
  if (alert.baseline() != 0) {
    absl::StrAppend(&text,
                    absl::StrFormat(" (%+.0f %%)", (alert.value() / alert.baseline() - 1) * 100));
  }
  return text;
}

std::string LastHealthy(const v1::Alert& alert) {
  std::string text = absl::StrCat("step ", alert.last_healthy_step());
  if (alert.has_resolved_step()) return absl::StrCat(text, " before it");
  if (alert.severity() == "info") return text;  // evidence, nothing to act upon
  if (alert.checkpoint().empty()) {
    return absl::StrCat(text, "; roll back to a checkpoint at or before it");
  }
  return absl::StrCat(text, "; roll back to checkpoint ", alert.checkpoint());
}

std::string TakenOn(const v1::Acknowledgement& acknowledgement) {
  return absl::StrCat("by ", acknowledgement.by(), " at ",
                      LocalTime(acknowledgement.time_unix_ns()),
                      acknowledgement.why().empty() ? "" : ": ", acknowledgement.why());
}

std::string EvidenceText(const v1::Evidence& evidence) {
  std::string text = absl::StrCat(evidence.supports() ? "" : "against: ", evidence.rule());
  if (evidence.layers_size() > 0) {
    absl::StrAppend(&text, evidence.layers_size() == 1 ? ", layer " : ", layers ",
                    absl::StrJoin(evidence.layers(), ", "));
  }
  // "since step 420" opens the daemon's text; here the step stands in front already.
  const absl::string_view detail = absl::StripPrefix(
      evidence.text(),
      evidence.has_step() ? absl::StrCat("since step ", evidence.step(), ", ") : "");
  absl::StrAppend(&text, detail.empty() ? "" : ": ", detail);
  return text;
}

// Rules that did not move, as one sentence: their silence speaks for the signature, or against it.
std::string Unmoved(const v1::Alert& alert, bool supports) {
  std::vector<absl::string_view> rules;
  for (const v1::Evidence& evidence : alert.evidence()) {
    if (!evidence.has_step() && evidence.supports() == supports) rules.push_back(evidence.rule());
  }
  if (rules.empty()) return "";
  return absl::StrCat(supports ? "for it: no move of " : "against it: no move of ",
                      absl::StrJoin(rules, ", "));
}

}  // namespace

std::string AlertLine(const v1::Alert& alert, const Terminal& terminal) {
  const int64_t step = alert.has_firing_step() ? alert.firing_step() : alert.pending_step();
  return absl::StrCat(
      terminal.Paint(StyleOf(alert), absl::StrCat(alert.severity(), " ", StateName(alert.state()))),
      "  step ", step, "  ", alert.rule(), ", ", FormatWhere(alert),
      alert.fault().empty() ? "" : absl::StrCat("  (", alert.fault(), ")"));
}

std::string AlertBlock(const v1::Alert& alert, const Terminal& terminal) {
  const std::string bar = terminal.Paint(StyleOf(alert), "┃");
  const size_t columns = std::max(40, std::min(terminal.columns(), 100) - 2);
  std::string block;
  const auto row = [&](absl::string_view label, const std::string& text) {
    if (text.empty()) return;
    bool first = true;
    for (const std::string& line : Wrap(text, columns - kLabelWidth - 1)) {
      const absl::string_view shown = first ? label : "";
      absl::StrAppend(&block, bar, " ",
                      terminal.Paint(Style::kDim, absl::StrFormat("%-*s", kLabelWidth, shown)),
                      line, "\n");
      first = false;
    }
  };
  const std::string head = absl::StrCat(absl::AsciiStrToUpper(alert.severity()), "  ",
                                        alert.fault().empty() ? alert.rule() : alert.fault());
  absl::StrAppend(&block, bar, " ", terminal.Paint(StyleOf(alert), Printable(head)), "  ",
                  StateName(alert.state()), "\n");
  row("says", alert.summary());
  row("rule", alert.rule());
  row("run", absl::StrCat(alert.run(), ", attempt ", alert.attempt()));
  row("where", FormatWhere(alert));
  row("since", Since(alert));
  if (!alert.indicator().empty()) row("value", ValueAgainstBaseline(alert));
  if (alert.has_last_healthy_step()) row("healthy", LastHealthy(alert));
  absl::string_view label = "evidence";
  for (const v1::Evidence& evidence : alert.evidence()) {
    if (!evidence.has_step()) continue;
    row(label, absl::StrCat("since step ", evidence.step(), ": ", EvidenceText(evidence)));
    label = "";
  }
  for (const bool supports : {true, false}) {
    const std::string unmoved = Unmoved(alert, supports);
    row(label, unmoved);
    if (!unmoved.empty()) label = "";
  }
  row(alert.has_resolved_step() ? "advised" : "advice", alert.description());
  row("runbook", alert.runbook());
  if (alert.has_acknowledgement()) row("taken on", TakenOn(alert.acknowledgement()));
  row("silenced", absl::StrJoin(alert.silenced_by(), ", "));
  row("id", alert.id());
  return block;
}

}  // namespace foreshock::cli
