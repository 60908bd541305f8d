#include "daemon/notify/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace foreshock::notify {
namespace {

constexpr int kLayersShown = 8;

std::string LayersShown(const v1::Alert& alert) {
  if (alert.all_layers()) return "all layers";
  if (alert.layers_size() == 0) return "";
  const int shown = std::min(alert.layers_size(), kLayersShown);
  std::string text =
      absl::StrCat(alert.layers_size() == 1 ? "layer " : "layers ",
                   absl::StrJoin(alert.layers().begin(), alert.layers().begin() + shown, ", "));
  if (shown < alert.layers_size()) {
    absl::StrAppend(&text, " and ", alert.layers_size() - shown, " more");
  }
  return text;
}

std::string Where(const v1::Alert& alert) {
  std::string where;
  if (const std::string layers = LayersShown(alert); !layers.empty()) {
    where = absl::StrCat(" in ", layers);
  }
  if (alert.has_head()) absl::StrAppend(&where, " head ", alert.head());
  if (alert.has_rank()) absl::StrAppend(&where, " on rank ", alert.rank());
  if (!alert.unit_name().empty()) absl::StrAppend(&where, " of '", alert.unit_name(), "'");
  return where;
}

std::string ValueText(const v1::Alert& alert) {
  if (alert.indicator().empty()) return "";
  std::string text = absl::StrFormat("%s %.4g", alert.indicator(), alert.value());
  if (alert.has_worst_step()) absl::StrAppend(&text, " at worst");
  if (!alert.has_baseline()) return text;
  absl::StrAppendFormat(&text, ", baseline %.4g", alert.baseline());
  const double change = (alert.value() - alert.baseline()) / std::abs(alert.baseline());
  if (std::isfinite(change)) absl::StrAppendFormat(&text, " (%+.1f %%)", 100 * change);
  return text;
}

int64_t StepOf(const v1::Alert& alert, MessageKind kind) {
  if (kind == MessageKind::kResolved && alert.has_resolved_step()) return alert.resolved_step();
  return alert.has_firing_step() ? alert.firing_step() : alert.pending_step();
}

// "since step 440 (fired at 460)", "from step 440 to 900".
std::string SinceText(const v1::Alert& alert) {
  if (alert.has_resolved_step()) {
    return absl::StrCat("from step ", alert.pending_step(), " to ", alert.resolved_step());
  }
  std::string text = absl::StrCat("since step ", alert.pending_step());
  if (alert.has_firing_step() && alert.firing_step() != alert.pending_step()) {
    absl::StrAppend(&text, " (fired at ", alert.firing_step(), ")");
  }
  return text;
}

std::string HealthyText(const v1::Alert& alert) {
  if (!alert.has_last_healthy_step()) return "";
  if (!alert.checkpoint().empty()) {
    return absl::StrCat(alert.last_healthy_step(),
                        "; newest checkpoint at or before it: ", alert.checkpoint());
  }
  return absl::StrCat(alert.last_healthy_step());
}

// As a value in a URL.
std::string PercentEncoded(const std::string& text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded += c;
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", byte);
    }
  }
  return encoded;
}

}  // namespace

std::string AlertLine(const v1::Alert& alert, MessageKind kind, const std::string& end_reason) {
  std::string line = absl::StrCat(kind == MessageKind::kFiring     ? "FIRING "
                                  : kind == MessageKind::kResolved ? "RESOLVED "
                                                                   : "ACKNOWLEDGED ",
                                  alert.severity(), " ", alert.run(), " ", alert.rule(),
                                  " at step ", StepOf(alert, kind), Where(alert));
  const std::string value = ValueText(alert);
  if (!value.empty()) absl::StrAppend(&line, ": ", value);
  if (!alert.fault().empty()) absl::StrAppend(&line, "; probable fault ", alert.fault());
  if (kind == MessageKind::kFiring && alert.has_last_healthy_step()) {
    absl::StrAppend(&line, "; last healthy step ", alert.last_healthy_step());
    if (!alert.checkpoint().empty()) {
      absl::StrAppend(&line, ", roll back to checkpoint ", alert.checkpoint());
    }
  }
  if (!end_reason.empty()) absl::StrAppend(&line, "; ", end_reason);
  if (!alert.runbook().empty()) absl::StrAppend(&line, "; runbook ", alert.runbook());
  return line;
}

std::string PlaceText(const v1::Alert& alert) {
  std::vector<std::string> parts;
  if (std::string layers = LayersShown(alert); !layers.empty()) parts.push_back(std::move(layers));
  if (alert.has_head()) parts.push_back(absl::StrCat("head ", alert.head()));
  if (alert.has_rank()) parts.push_back(absl::StrCat("rank ", alert.rank()));
  if (!alert.unit_name().empty()) parts.push_back(absl::StrCat("'", alert.unit_name(), "'"));
  return absl::StrJoin(parts, ", ");
}

std::string Headline(const Message& message, size_t bytes_max) {
  const v1::Alert& alert = message.alerts.front()->alert();
  const std::string place = PlaceText(alert);
  std::string text = absl::StrCat(
      message.kind == MessageKind::kResolved ? "over: " : absl::StrCat(alert.severity(), ": "),
      alert.fault().empty() || alert.fault() == "unknown" ? alert.rule() : alert.fault(),
      " in run ", alert.run(), place.empty() ? "" : ", ", place, ", ", SinceText(alert));
  if (message.alerts.size() > 1) {
    absl::StrAppend(&text, " (and ", message.alerts.size() - 1, " more)");
  }
  if (message.kind == MessageKind::kResolved) {
    for (const auto& row : message.alerts) {
      const std::string reason = EndReason(message, *row);
      if (reason.empty()) continue;
      absl::StrAppend(&text, ": ", reason);
      break;
    }
  }
  return Shorten(text, bytes_max);
}

std::vector<std::pair<std::string, std::string>> Facts(const v1::Alert& alert,
                                                       const std::string& external_url) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&facts](absl::string_view label, std::string text) {
    if (!text.empty()) facts.emplace_back(label, std::move(text));
  };
  add("What", alert.summary());
  add("Run", absl::StrCat(alert.run(), ", attempt ", alert.attempt()));
  add("Where", PlaceText(alert));
  add("When", SinceText(alert));
  add("Value", ValueText(alert));
  add("Rule", absl::StrCat(alert.rule(), " (", alert.severity(), ")"));
  add("Probable fault", alert.fault());
  add("Last healthy step", HealthyText(alert));
  add(alert.has_resolved_step() ? "What was advised" : "What to do", alert.description());
  add("Runbook", alert.runbook());
  add("More", AlertUrl(external_url, alert));
  return facts;
}

std::string RunUrl(const std::string& external_url, const std::string& run) {
  if (external_url.empty()) return "";
  return absl::StrCat(absl::StripSuffix(external_url, "/"), "/run?run=", PercentEncoded(run));
}

std::string AlertUrl(const std::string& external_url, const v1::Alert& alert) {
  if (external_url.empty()) return "";
  return absl::StrCat(absl::StripSuffix(external_url, "/"),
                      "/alert?run=", PercentEncoded(alert.run()),
                      "&id=", PercentEncoded(alert.id()));
}

std::string Shorten(const std::string& text, size_t bytes_max) {
  constexpr absl::string_view kCut = "...";
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max - std::min(bytes_max, kCut.size());
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return absl::StrCat(text.substr(0, end), kCut);
}

}  // namespace foreshock::notify
