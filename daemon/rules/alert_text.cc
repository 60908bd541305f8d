#include "daemon/rules/alert_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace foreshock::rules {
namespace {

constexpr size_t kShown = 8;  // layers, ranks

constexpr absl::string_view kPlaceholders[] = {
    "run",  "rule",  "fault",    "severity", "indicator",         "layers",    "rank",
    "unit", "value", "baseline", "step",     "last_healthy_step", "checkpoint"};

std::string Value(const v1::Alert& alert, absl::string_view name) {
  const auto or_unknown = [](std::string text) { return text.empty() ? "unknown" : text; };
  if (name == "run") return alert.run();
  if (name == "rule") return alert.rule();
  if (name == "fault") return or_unknown(alert.fault());
  if (name == "severity") return alert.severity();
  if (name == "indicator") return or_unknown(alert.indicator());
  if (name == "layers") return or_unknown(LayersText(alert));
  if (name == "rank") return alert.has_rank() ? absl::StrCat("rank ", alert.rank()) : "unknown";
  if (name == "unit") {
    return alert.has_head() ? absl::StrCat("head ", alert.head()) : or_unknown(alert.unit_name());
  }
  if (name == "value") return NumberText(alert.value());
  if (name == "baseline") return alert.has_baseline() ? NumberText(alert.baseline()) : "unknown";
  if (name == "step") return absl::StrCat(alert.firing_step());
  if (name == "last_healthy_step") {
    return alert.has_last_healthy_step() ? absl::StrCat(alert.last_healthy_step()) : "unknown";
  }
  return or_unknown(alert.checkpoint());
}

// Calls `visit` with the text before each {{...}} and with its trimmed inside (empty at the end).
template <typename Visit>
void Split(absl::string_view text, const Visit& visit) {
  while (true) {
    const size_t open = text.find("{{");
    const size_t close = open == absl::string_view::npos ? open : text.find("}}", open);
    if (close == absl::string_view::npos) {
      visit(text, absl::string_view());
      return;
    }
    visit(text.substr(0, open),
          absl::StripAsciiWhitespace(text.substr(open + 2, close - open - 2)));
    text.remove_prefix(close + 2);
  }
}

std::string Fill(absl::string_view text, const v1::Alert& alert) {
  std::string filled;
  Split(text, [&](absl::string_view plain, absl::string_view name) {
    absl::StrAppend(&filled, plain, name.empty() ? "" : Value(alert, name));
  });
  return filled;
}

template <typename T>
std::string Some(absl::Span<const T> items) {
  const absl::Span<const T> shown = items.first(std::min(items.size(), kShown));
  std::string text = absl::StrJoin(shown, ", ");
  if (shown.size() < items.size()) {
    absl::StrAppend(&text, " and ", items.size() - shown.size(), " more");
  }
  return text;
}

std::string Place(const v1::Alert& alert) {
  std::string place;
  const std::string layers = LayersText(alert);
  if (!layers.empty()) absl::StrAppend(&place, " in ", layers);
  if (alert.has_head()) absl::StrAppend(&place, " (head ", alert.head(), ")");
  if (alert.has_rank()) absl::StrAppend(&place, " on rank ", alert.rank());
  if (!alert.unit_name().empty()) absl::StrAppend(&place, " (", alert.unit_name(), ")");
  return place;
}

std::string Measurement(const v1::Alert& alert, absl::string_view measure) {
  std::string text =
      absl::StrCat(measure.empty() ? alert.indicator() : std::string(measure), Place(alert));
  if (!alert.has_resolved_step()) {
    absl::StrAppend(&text, " is ", NumberText(alert.value()));
  } else if (alert.has_worst_step()) {
    absl::StrAppend(&text, " was at worst ", NumberText(alert.value()), " (step ",
                    alert.worst_step(), ")");
  } else {
    return absl::StrCat(text, " was out of its limits");
  }
  if (alert.has_baseline()) {
    absl::StrAppend(&text, ", baseline ", NumberText(alert.baseline()));
    if (alert.baseline() != 0) {
      absl::StrAppendFormat(&text, " (%+.1f %%)",
                            100 * (alert.value() - alert.baseline()) / std::abs(alert.baseline()));
    }
  }
  return text;
}

std::string DefaultSummary(const v1::Alert& alert, absl::string_view measure,
                           absl::string_view sentence) {
  std::string text =
      alert.has_resolved_step()
          ? absl::StrCat("Steps ", alert.firing_step(), " to ", alert.resolved_step(), ": ")
          : absl::StrCat("Since step ", alert.firing_step(), ": ");
  absl::StrAppend(&text, sentence.empty() ? Measurement(alert, measure) : std::string(sentence));
  if (!alert.fault().empty()) absl::StrAppend(&text, "; probable fault: ", alert.fault());
  return text;
}

// Of an alert that is over nothing is left to do: it says what was to be done.
void AppendRollBack(v1::Alert* alert) {
  const bool over = alert->has_resolved_step();
  const int64_t healthy = alert->last_healthy_step();
  AppendSentence(
      absl::StrCat(over ? "Last healthy step before it: " : "Last healthy step: ", healthy, "."),
      alert);
  // An alert of severity info is evidence; what to do is said by the alert that warns.
  if (alert->severity() == "info") return;
  const std::string checkpoint =
      alert->checkpoint().empty()
          ? absl::StrCat("a checkpoint at or before step ", healthy)
          : absl::StrCat(alert->checkpoint(), ", the newest declared checkpoint at or before it");
  AppendSentence(
      absl::StrCat(over ? "While it fired, the advice was to roll back to " : "Roll back to ",
                   checkpoint, "."),
      alert);
}

void AppendAdvice(absl::string_view confidence, v1::Alert* alert) {
  const auto sentence = [alert](const std::string& s) { AppendSentence(s, alert); };
  std::vector<std::string> movers;
  for (const v1::Evidence& evidence : alert->evidence()) {
    if (evidence.supports() && evidence.has_step()) {
      movers.push_back(absl::StrCat(evidence.rule(), " (step ", evidence.step(), ")"));
    }
  }
  if (!movers.empty()) {
    sentence(absl::StrCat("Moved, first to last: ", absl::StrJoin(movers, ", "), "."));
  }
  if (!confidence.empty()) sentence(absl::StrCat("Confidence: ", confidence, "."));
  if (alert->has_last_healthy_step()) AppendRollBack(alert);
}

}  // namespace

void AppendSentence(absl::string_view sentence, v1::Alert* alert) {
  absl::StrAppend(alert->mutable_description(), alert->description().empty() ? "" : " ", sentence);
}

std::string NumberText(double value) { return absl::StrFormat("%.6g", value); }

std::string SomeText(absl::Span<const int32_t> numbers) { return Some(numbers); }

std::string RanksText(absl::Span<const uint32_t> ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", Some(ranks));
}

std::string LayersText(const v1::Alert& alert) {
  if (alert.all_layers()) return "all layers";
  if (alert.layers().empty()) return "";
  return absl::StrCat(alert.layers_size() == 1 ? "layer " : "layers ",
                      absl::StrJoin(alert.layers(), ", "));
}

std::string UnknownPlaceholder(absl::string_view text) {
  std::string wrong;
  Split(text, [&](absl::string_view, absl::string_view name) {
    const bool known = std::find(std::begin(kPlaceholders), std::end(kPlaceholders), name) !=
                       std::end(kPlaceholders);
    if (!name.empty() && !known && wrong.empty()) wrong = absl::StrCat("{{", name, "}}");
  });
  return wrong;
}

std::string PlaceholderNames() { return absl::StrJoin(kPlaceholders, ", "); }

std::string MeasureText(const Rule& rule) {
  const Input& input = rule.input;
  static constexpr absl::string_view kCombine[] = {"", "norm", "sum", "mean", "min", "max"};
  if (input.indicators.empty()) return "";
  std::string text = input.combine == Input::Combine::kNone
                         ? input.indicators[0]
                         : absl::StrCat(kCombine[static_cast<size_t>(input.combine)], "(",
                                        absl::StrJoin(input.indicators, ", "), ")");
  if (!input.divide_by.empty()) absl::StrAppend(&text, " / ", input.divide_by);
  if (input.siblings) absl::StrAppend(&text, " / its siblings'");
  return Measured(rule.detector, std::move(text));
}

void WriteTexts(const Annotations& annotations, absl::string_view measure,
                absl::string_view sentence, absl::string_view confidence, v1::Alert* alert) {
  alert->set_summary(annotations.summary.empty() ? DefaultSummary(*alert, measure, sentence)
                                                 : Fill(annotations.summary, *alert));
  const bool over = alert->has_resolved_step();
  const std::string description = Fill(annotations.description, *alert);
  if (over) {
    alert->set_description(absl::StrCat("It is over since step ", alert->resolved_step(), "."));
    if (!description.empty()) {
      AppendSentence(absl::StrCat("While it fired it said: ", description), alert);
    }
  } else {
    alert->set_description(description);
  }
  if (!annotations.summary.empty() && !sentence.empty()) {
    std::string said(sentence);
    said[0] = absl::ascii_toupper(said[0]);
    AppendSentence(absl::StrCat(said, "."), alert);
  }
  AppendAdvice(confidence, alert);
  alert->set_runbook(annotations.runbook);
}

void WriteEnd(absl::string_view why, v1::Alert* alert) {
  alert->set_summary(absl::StrCat("Steps ", alert->firing_step(), " to ", alert->resolved_step(),
                                  ": it ended because ", why));
  alert->set_description(absl::StrCat("It is over since step ", alert->resolved_step(), "."));
  AppendAdvice(/*confidence=*/"", alert);
}

}  // namespace foreshock::rules
