#include "client/cli/daemon_metrics.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/format.h"
#include "client/cli/http_probe.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

struct MetricSample {
  absl::string_view name;
  std::map<std::string, std::string> labels{};
  double value = 0;
};

// The quoted value at the beginning of `text`, which is moved behind it; nothing if there is none.
std::optional<std::string> TakeLabelValue(absl::string_view* text) {
  if (!absl::StartsWith(*text, "\"")) return std::nullopt;
  std::string value;
  for (size_t i = 1; i < text->size(); ++i) {
    if ((*text)[i] == '"') {
      text->remove_prefix(i + 1);
      return value;
    }
    if ((*text)[i] == '\\' && i + 1 < text->size()) {
      ++i;
      value.push_back((*text)[i] == 'n' ? '\n' : (*text)[i]);
    } else {
      value.push_back((*text)[i]);
    }
  }
  return std::nullopt;
}

// name{label="value",...} value
std::optional<MetricSample> ParseMetricSample(absl::string_view line) {
  MetricSample sample;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == 0 || name_end == absl::string_view::npos) return std::nullopt;
  sample.name = line.substr(0, name_end);
  line.remove_prefix(name_end);
  if (line[0] == '{') {
    line.remove_prefix(1);
    while (!absl::StartsWith(line, "}")) {
      const size_t equals = line.find('=');
      if (equals == absl::string_view::npos) return std::nullopt;
      const std::string label(line.substr(0, equals));
      line.remove_prefix(equals + 1);
      std::optional<std::string> value = TakeLabelValue(&line);
      if (!value.has_value()) return std::nullopt;
      sample.labels[label] = *std::move(value);
      if (absl::StartsWith(line, ",")) line.remove_prefix(1);
    }
    line.remove_prefix(1);
  }
  const std::vector<absl::string_view> rest = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (rest.empty() || !absl::SimpleAtod(rest[0], &sample.value)) return std::nullopt;
  return sample;
}

uint64_t Count(double value) { return value > 0 ? static_cast<uint64_t>(value) : 0; }

std::string Ago(int64_t unix_s, absl::Time now) {
  const absl::Duration age = now - absl::FromUnixSeconds(unix_s);
  return absl::StrCat(ShortDuration(std::max(absl::ZeroDuration(), age)), " ago");
}

}  // namespace

NotifierMetrics::Health NotifierMetrics::health() const {
  if (pending > 0 && oldest_pending_s > 300) return Health::kBad;
  const bool failed = last_failure_unix_s > last_success_unix_s;
  return failed || refused > 0 ? Health::kTrouble : Health::kGood;
}

DaemonMetrics ParseDaemonMetrics(absl::string_view page) {
  DaemonMetrics metrics;
  std::map<std::string, NotifierMetrics> notifiers;
  for (const absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "foreshock_")) continue;
    // Most of a page are series of runs.
    const bool ours = absl::StartsWith(line, "foreshock_queue_") ||
                      absl::StartsWith(line, "foreshock_notifications_") ||
                      absl::StartsWith(line, "foreshock_silences") ||
                      absl::StartsWith(line, "foreshock_reports_refused_total");
    if (!ours) continue;
    std::optional<MetricSample> sample = ParseMetricSample(line);
    if (!sample.has_value()) continue;
    const absl::string_view name = sample->name;
    const double value = sample->value;
    if (name == "foreshock_queue_items") metrics.queue_items = Count(value);
    if (name == "foreshock_queue_bytes") metrics.queue_bytes = Count(value);
    if (name == "foreshock_silences") metrics.silences = Count(value);
    if (name == "foreshock_reports_refused_total") metrics.reports_refused += Count(value);
    const auto who = sample->labels.find("notifier");
    // "none" stands in where no notifier is configured.
    if (who == sample->labels.end() || who->second == "none") continue;
    NotifierMetrics& notifier = notifiers[who->second];
    notifier.name = who->second;
    if (name == "foreshock_notifications_total") {
      const auto result = sample->labels.find("result");
      const std::string& what = result == sample->labels.end() ? "" : result->second;
      if (what == "sent" || what == "repeated") notifier.told += Count(value);
      if (what == "refused") notifier.refused += Count(value);
    } else if (name == "foreshock_notifications_trouble" && value != 0) {
      notifier.troubles.push_back(sample->labels["trouble"]);
    } else if (name == "foreshock_notifications_pending") {
      notifier.pending = Count(value);
    } else if (name == "foreshock_notifications_oldest_pending_seconds") {
      notifier.oldest_pending_s = value;
    } else if (name == "foreshock_notifications_last_success_timestamp_seconds") {
      notifier.last_success_unix_s = static_cast<int64_t>(value);
    } else if (name == "foreshock_notifications_last_failure_timestamp_seconds") {
      notifier.last_failure_unix_s = static_cast<int64_t>(value);
    }
  }
  for (auto& [name, notifier] : notifiers) metrics.notifiers.push_back(std::move(notifier));
  return metrics;
}

absl::StatusOr<DaemonMetrics> ReadDaemonMetrics(const std::string& address,
                                                const Credentials& credentials,
                                                absl::Duration timeout) {
  FORESHOCK_ASSIGN_OR_RETURN(const HttpAnswer answer,
                             HttpGet(address, "/metrics", credentials, timeout));
  if (answer.status != 200 || !absl::StrContains(answer.body, "foreshock_")) {
    return absl::UnavailableError(absl::StrCat(HttpUrl(credentials, address, "/metrics"),
                                               " answers ", answer.status,
                                               " without a metric of Foreshock"));
  }
  return ParseDaemonMetrics(answer.body);
}

std::string NotifierText(const NotifierMetrics& notifier, absl::Time now) {
  std::string text = absl::StrCat(notifier.name, ": ");
  if (notifier.pending > 0) {
    absl::StrAppend(&text, FormatCount(notifier.pending), " waiting for ",
                    ShortDuration(absl::Seconds(notifier.oldest_pending_s)));
  } else {
    absl::StrAppend(&text, FormatCount(notifier.told), " told");
  }
  if (notifier.refused > 0) {
    absl::StrAppend(&text, ", ", FormatCount(notifier.refused), " given up");
  }
  if (notifier.last_failure_unix_s > notifier.last_success_unix_s) {
    absl::StrAppend(&text, ", last failed ", Ago(notifier.last_failure_unix_s, now));
  } else if (notifier.last_success_unix_s > 0) {
    absl::StrAppend(&text, ", last ", Ago(notifier.last_success_unix_s, now));
  }
  return text;
}

}  // namespace foreshock::cli
