#include "daemon/notify/silences.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"

namespace foreshock::notify {
namespace {

constexpr size_t kLineBytesMax = 1000;

absl::Status CheckLine(absl::string_view name, const std::string& text, bool may_be_empty) {
  const bool control =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); });
  if (text.size() <= kLineBytesMax && !control && (may_be_empty || !text.empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "` is ", text.empty() ? "empty" : "too long or not one line",
                   "; allowed is one line of at most ", kLineBytesMax, " bytes"));
}

absl::StatusOr<std::vector<base::LabelMatcher>> ParseMatchers(
    const v1::SilenceAlertsRequest& request) {
  if (request.matchers().empty() || request.matchers_size() > Silences::kMatchersMax) {
    return absl::InvalidArgumentError(absl::StrCat("a silence has 1 to ", Silences::kMatchersMax,
                                                   " matchers, this one has ",
                                                   request.matchers_size()));
  }
  std::vector<base::LabelMatcher> matchers;
  for (const std::string& text : request.matchers()) {
    FORESHOCK_ASSIGN_OR_RETURN(base::LabelMatcher matcher, base::LabelMatcher::Parse(text));
    matchers.push_back(std::move(matcher));
  }
  return matchers;
}

}  // namespace

absl::Status CheckBy(const std::string& by) { return CheckLine("by", by, false); }
absl::Status CheckWhy(const std::string& why) { return CheckLine("why", why, true); }

void Silences::Load(const model::SilencesRow& row) {
  std::map<std::string, Entry> entries;
  for (const v1::Silence& silence : row.silences()) {
    Entry& entry = entries[silence.id()];
    entry.silence = silence;
    for (const std::string& text : silence.matchers()) {
      absl::StatusOr<base::LabelMatcher> matcher = base::LabelMatcher::Parse(text);
      if (!matcher.ok()) {
        base::LogWarning(
            "notify", "a stored silence cannot be read; it holds nothing back",
            {{"silence", silence.id()}, {"error", std::string(matcher.status().message())}});
        entry.matchers.clear();
        break;
      }
      entry.matchers.push_back(*std::move(matcher));
    }
  }
  base::MutexLock lock(&mutex_);
  entries_ = std::move(entries);
}

absl::StatusOr<v1::Silence> Silences::Add(const v1::SilenceAlertsRequest& request) {
  FORESHOCK_RETURN_IF_ERROR(CheckBy(request.by()));
  FORESHOCK_RETURN_IF_ERROR(CheckWhy(request.why()));
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<base::LabelMatcher> matchers, ParseMatchers(request));
  const absl::Duration duration = absl::Nanoseconds(request.duration_ns());
  if (duration < absl::Seconds(1) || duration > kLongest) {
    return absl::InvalidArgumentError(absl::StrCat("a silence lasts from 1s to ",
                                                   absl::FormatDuration(kLongest), ", not ",
                                                   absl::FormatDuration(duration)));
  }
  base::MutexLock change_lock(&change_mutex_);
  std::map<std::string, Entry> entries;
  {
    base::MutexLock lock(&mutex_);
    entries = entries_;
  }
  const auto in_force =
      static_cast<size_t>(std::count_if(entries.begin(), entries.end(), [this](const auto& entry) {
        return InForce(entry.second.silence);
      }));
  if (in_force >= kSilencesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kSilencesMax, " silences in force; expire some first"));
  }
  v1::Silence silence;
  do {
    silence.set_id(absl::StrFormat("%08x", absl::Uniform<uint32_t>(random_)));
  } while (entries.contains(silence.id()));
  *silence.mutable_matchers() = request.matchers();
  silence.set_starts_unix_ns(absl::ToUnixNanos(clock_->Now()));
  silence.set_ends_unix_ns(absl::ToUnixNanos(clock_->Now() + duration));
  silence.set_by(request.by());
  silence.set_why(request.why());
  entries[silence.id()] = {silence, std::move(matchers)};
  FORESHOCK_RETURN_IF_ERROR(Put(std::move(entries)));
  return silence;
}

absl::StatusOr<v1::Silence> Silences::Expire(const std::string& id) {
  base::MutexLock change_lock(&change_mutex_);
  std::map<std::string, Entry> entries;
  {
    base::MutexLock lock(&mutex_);
    entries = entries_;
  }
  const auto found = entries.find(id);
  if (found == entries.end() || !InForce(found->second.silence)) {
    std::vector<std::string> ids;
    for (const auto& [other, entry] : entries) {
      if (InForce(entry.silence)) ids.push_back(other);
    }
    return absl::NotFoundError(absl::StrCat(
        "no silence '", id, "' is in force; ",
        ids.empty() ? "there are none" : absl::StrCat("there are ", absl::StrJoin(ids, ", "))));
  }
  found->second.silence.set_ends_unix_ns(absl::ToUnixNanos(clock_->Now()));
  v1::Silence silence = found->second.silence;
  FORESHOCK_RETURN_IF_ERROR(Put(std::move(entries)));
  return silence;
}

absl::Status Silences::Put(std::map<std::string, Entry> entries) {
  const absl::Time oldest = clock_->Now() - kRemembered;
  std::erase_if(entries, [oldest](const auto& entry) {
    return absl::FromUnixNanos(entry.second.silence.ends_unix_ns()) < oldest;
  });
  model::SilencesRow row;
  for (const auto& [id, entry] : entries) *row.add_silences() = entry.silence;
  FORESHOCK_RETURN_IF_ERROR(write_(row));
  base::MutexLock lock(&mutex_);
  entries_ = std::move(entries);
  return absl::OkStatus();
}

std::vector<v1::Silence> Silences::List(bool expired) const {
  std::vector<v1::Silence> list;
  {
    base::MutexLock lock(&mutex_);
    for (const auto& [id, entry] : entries_) {
      if (expired || InForce(entry.silence)) list.push_back(entry.silence);
    }
  }
  std::sort(list.begin(), list.end(), [this](const v1::Silence& a, const v1::Silence& b) {
    return std::tuple(!InForce(a), -a.ends_unix_ns(), a.id()) <
           std::tuple(!InForce(b), -b.ends_unix_ns(), b.id());
  });
  return list;
}

bool Silences::Holds(const Entry& entry, const v1::Alert& alert) const {
  return !entry.matchers.empty() && InForce(entry.silence) && MatchesAll(entry.matchers, alert);
}

std::vector<std::string> Silences::Matching(const v1::Alert& alert) const {
  std::vector<std::string> ids;
  base::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (Holds(entry, alert)) ids.push_back(id);
  }
  return ids;
}

std::optional<v1::Silence> Silences::Longest(const v1::Alert& alert) const {
  std::optional<v1::Silence> longest;
  base::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (!Holds(entry, alert)) continue;
    if (longest.has_value() && longest->ends_unix_ns() >= entry.silence.ends_unix_ns()) continue;
    longest = entry.silence;
  }
  return longest;
}

}  // namespace foreshock::notify
