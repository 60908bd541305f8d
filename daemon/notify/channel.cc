#include "daemon/notify/channel.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"

namespace foreshock::notify {
namespace {

constexpr absl::Duration kBackoffFirst = absl::Seconds(1);
constexpr absl::Duration kBackoffMax = absl::Minutes(5);
constexpr absl::Duration kBackoffMin = absl::Milliseconds(100);
constexpr absl::Duration kRecordRetry = absl::Seconds(1);
// Silences end and routes change without a word to the channel.
constexpr absl::Duration kLookAgain = absl::Seconds(5);
constexpr size_t kStateAlertsMax = 256;  // of one message

// Of the messages that stand: those that were told as over with the run do not.
std::optional<Severity> GravestTold(const model::Delivery* delivery) {
  std::optional<Severity> gravest;
  if (delivery == nullptr) return gravest;
  for (const model::Delivery::Told& told : delivery->told()) {
    if (told.run_ended()) continue;
    const Severity severity = ParseSeverity(told.severity()).value_or(Severity::kCritical);
    gravest = std::max(gravest.value_or(severity), severity);
  }
  return gravest;
}

bool WasTold(const model::Delivery* delivery) {
  return delivery != nullptr && !delivery->told().empty();
}

}  // namespace

absl::Duration Backoff(int failures, double random) {
  const absl::Duration limit =
      std::min(kBackoffMax, kBackoffFirst * std::exp2(std::min(failures - 1, 20)));
  return std::max(kBackoffMin, limit * random);
}

Channel::Channel(Options options, std::unique_ptr<Notifier> notifier, Deps deps)
    : options_(std::move(options)),
      notifier_(std::move(notifier)),
      deps_(std::move(deps)),
      tokens_(static_cast<double>(options_.messages_per_hour_max)) {}

// ---- Any thread.

void Channel::Offer(std::shared_ptr<const model::AlertRow> row, uint64_t version) {
  base::MutexLock lock(&mutex_);
  const std::string id = row->alert().id();
  inbox_[id] = {std::move(row), version};
}

void Channel::SetRunEnd(const std::string& run, const std::optional<RunEnd>& end) {
  base::MutexLock lock(&mutex_);
  inbox_run_ends_[run] = end;
}

void Channel::OfferChange(const RunChange& change) {
  if (!options_.changes) return;
  for (const base::LabelMatcher& matcher : options_.match) {  // a run has no other label
    if (matcher.label() == "run" && !matcher.Matches(change.run)) return;
  }
  base::MutexLock lock(&mutex_);
  inbox_changes_.push_back(change);
}

Channel::Stats Channel::stats() const {
  base::MutexLock lock(&mutex_);
  return stats_;
}

// ---- The turning thread.

absl::Time Channel::Turn(bool last) {
  const absl::Time now = deps_.clock->Now();
  wake_at_ = absl::InfiniteFuture();
  TakeInbox();
  for (auto& [id, entry] : entries_) {
    if (entry.unrecorded) Record(&entry);
  }
  if (now < not_before_) {
    WakeAt(not_before_);
  } else if (options_.resend > absl::ZeroDuration()) {
    TellState(now);
  } else {
    TellNews(now, last);
    TellChanges(now);
  }
  Settle(deps_.clock->Now());
  return wake_at_;
}

void Channel::TakeInbox() {
  std::map<std::string, Offered> offered;
  {
    base::MutexLock lock(&mutex_);
    offered = std::exchange(inbox_, {});
    for (RunChange& change : std::exchange(inbox_changes_, {})) {
      changes_.push_back(std::move(change));
      if (changes_.size() > kChangesMax) changes_.pop_front();
    }
    for (auto& [run, end] : std::exchange(inbox_run_ends_, {})) {
      if (end.has_value()) {
        run_ends_[run] = *std::move(end);
      } else {
        run_ends_.erase(run);
      }
    }
  }
  for (auto& [id, item] : offered) {
    Entry& entry = entries_[id];
    entry.version = item.version;
    const model::Delivery* told =
        entry.row == nullptr ? nullptr : FindDelivery(*entry.row, options_.notifier);
    if (told == nullptr) {
      entry.row = std::move(item.row);
      continue;
    }
    // The offer may be older than what the receiver has taken since.
    auto merged = std::make_shared<model::AlertRow>(*item.row);
    MergeDelivery(*told, merged.get());
    entry.row = std::move(merged);
  }
}

void Channel::Record(Entry* entry) {
  const absl::Status status =
      deps_.record(*entry->row, *FindDelivery(*entry->row, options_.notifier));
  // Not found: the run was deleted meanwhile.
  entry->unrecorded = !status.ok() && !absl::IsNotFound(status);
  if (!entry->unrecorded) return;
  base::LogEvery(absl::StrCat("notify.record.", options_.notifier), base::LogLevel::kError,
                 "notify",
                 "what was told cannot be written down; a restart now would tell it again",
                 {{"notifier", options_.notifier}, {"error", std::string(status.message())}});
}

bool Channel::Wanted(Entry* entry) {
  const v1::Alert& alert = entry->row->alert();
  const bool filtered =
      SeverityOf(alert) < options_.severity_min || !MatchesAll(options_.match, alert);
  const bool silenced = !filtered && deps_.silenced && deps_.silenced(alert);
  if ((filtered || silenced) && !std::exchange(entry->counted_out, true)) {
    Count(filtered ? "filtered" : "silenced");
  }
  return !filtered && !silenced;
}

Channel::Need Channel::NeedOf(Entry* entry, absl::Time now) {
  const model::AlertRow& row = *entry->row;
  const model::Delivery* const delivery = FindDelivery(row, options_.notifier);
  const std::optional<Severity> told = GravestTold(delivery);
  const Severity severity = SeverityOf(row.alert());
  const bool over = IsOver(*entry, now);
  // What was told as over with its run is told anew when somebody speaks for the run again.
  const auto run_end = run_ends_.find(row.alert().run());
  const bool ended = run_end != run_ends_.end();
  const bool deleted = ended && run_end->second.deleted;
  const bool goes_on = row.alert().state() != v1::ALERT_STATE_RESOLVED && !ended;
  const bool untold = !WasTold(delivery) && !deleted;
  const bool news = told.has_value() ? !over && severity > *told : goes_on || untold;
  const bool refused = entry->refused.has_value() && *entry->refused >= severity;
  const bool taken_on =
      row.alert().has_acknowledgement() &&
      ParseSeverity(row.alert().acknowledgement().severity()).value_or(Severity::kCritical) >=
          severity;
  if (news && !refused && !taken_on && Wanted(entry)) return Need::kFiring;
  if (over && told.has_value() && !delivery->resolved() && !entry->end_refused) {
    return Need::kResolved;
  }
  if (taken_on && told.has_value() && !over && !delivery->acknowledged() && !entry->end_refused) {
    return Need::kAcknowledged;
  }
  return Need::kNothing;
}

// By itself, or with its run.
bool Channel::IsOver(const Entry& entry, absl::Time now) const {
  const v1::Alert& alert = entry.row->alert();
  const auto end = run_ends_.find(alert.run());
  return alert.state() == v1::ALERT_STATE_RESOLVED ||
         (end != run_ends_.end() && now >= end->second.told_at);
}

v1::AlertState Channel::StateOf(const Entry& entry, absl::Time now) const {
  return IsOver(entry, now) ? v1::ALERT_STATE_RESOLVED : v1::ALERT_STATE_FIRING;
}

// Names a message by an alert of it: stable while the alert goes on, a new one when its run does.
std::string Channel::GroupName(const model::AlertRow& row) const {
  std::string name = absl::StrCat(row.alert().id(), "/", SeverityName(SeverityOf(row.alert())));
  const model::Delivery* const delivery = FindDelivery(row, options_.notifier);
  if (delivery == nullptr) return name;
  const auto ended = std::count_if(delivery->told().begin(), delivery->told().end(),
                                   [](const auto& told) { return told.run_ended(); });
  if (ended > 0) absl::StrAppend(&name, "/", ended + 1);
  return name;
}

void Channel::TellNews(absl::Time now, bool last) {
  for (auto& [id, entry] : entries_) {
    if (NeedOf(&entry, now) == Need::kNothing) entry.waits_since = absl::InfiniteFuture();
  }
  TellFiring(now, last);
  if (now >= not_before_) TellAcknowledged(now);
  if (now >= not_before_) TellEnds(now);
}

void Channel::TellFiring(absl::Time now, bool last) {
  std::map<std::string, Entries> groups;  // by run, or by alert
  for (auto& [id, entry] : entries_) {
    if (NeedOf(&entry, now) != Need::kFiring) continue;
    entry.waits_since = std::min(entry.waits_since, now);
    const bool alone = options_.group_wait <= absl::ZeroDuration();
    groups[alone ? id : entry.row->alert().run()].push_back(&entry);
  }
  std::vector<Entries> ready;
  bool held_back = false;
  for (auto& [name, entries] : groups) {
    absl::Time since = now;
    for (const Entry* entry : entries) {
      since = std::min(since, entry->waits_since);
      held_back = held_back || entry->held_back;
    }
    if (last || now >= since + options_.group_wait) {
      ready.push_back(std::move(entries));
    } else {
      WakeAt(since + options_.group_wait);
    }
  }
  if (held_back) {  // what the limit held back goes as one message, whatever its runs
    Entries all;
    for (const Entries& entries : ready) all.insert(all.end(), entries.begin(), entries.end());
    ready.assign(all.empty() ? 0 : 1, all);
  }
  const auto gravest_first = [](const Entry* a, const Entry* b) {
    const auto key = [](const Entry* entry) {
      return std::tuple(-static_cast<int>(SeverityOf(entry->row->alert())),
                        entry->row->fired_unix_ns(), entry->row->alert().id());
    };
    return key(a) < key(b);
  };
  for (Entries& entries : ready) {
    if (!TakeToken(now)) {
      for (Entry* entry : entries) {
        if (!std::exchange(entry->held_back, true)) Count("rate_limited");
      }
      continue;
    }
    std::sort(entries.begin(), entries.end(), gravest_first);
    if (!Send(MessageKind::kFiring, entries, GroupName(*entries.front()->row), now)) return;
  }
}

void Channel::TellAcknowledged(absl::Time now) {
  for (auto& [id, entry] : entries_) {
    if (NeedOf(&entry, now) != Need::kAcknowledged) continue;
    entry.waits_since = std::min(entry.waits_since, now);
    const model::Delivery* const delivery = FindDelivery(*entry.row, options_.notifier);
    const std::string group = delivery->told(delivery->told_size() - 1).group();
    if (!Send(MessageKind::kAcknowledged, {&entry}, group, now)) return;
  }
}

// The end of a message is told when all of its alerts are over.
void Channel::TellEnds(absl::Time now) {
  std::map<std::string, Entries> members;
  std::set<std::string> open;
  for (auto& [id, entry] : entries_) {
    const model::Delivery* const delivery = FindDelivery(*entry.row, options_.notifier);
    if (!WasTold(delivery)) continue;
    const int first = options_.end_every_group ? 0 : delivery->told_size() - 1;
    for (int i = first; i < delivery->told_size(); ++i) {
      if (delivery->told(i).run_ended()) continue;
      const std::string& group = delivery->told(i).group();
      members[group].push_back(&entry);
      if (!IsOver(entry, now)) open.insert(group);
    }
  }
  for (const auto& [group, entries] : members) {
    if (open.contains(group) || ended_groups_.contains(group)) continue;
    Entries over;
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(over),
                 [&](Entry* entry) { return NeedOf(entry, now) == Need::kResolved; });
    if (over.empty()) continue;
    for (Entry* entry : over) entry->waits_since = std::min(entry->waits_since, now);
    if (!Send(MessageKind::kResolved, over, group, now)) return;
  }
}

void Channel::TellState(absl::Time now) {
  Entries active;
  bool due = false;
  for (auto& [id, entry] : entries_) {
    const model::AlertRow& row = *entry.row;
    const model::Delivery* const delivery = FindDelivery(row, options_.notifier);
    const absl::Time waits_since = std::exchange(entry.waits_since, absl::InfiniteFuture());
    const bool over = IsOver(entry, now);
    // What was over before it could be told is none of the state.
    const bool shown = over ? WasTold(delivery) && now < EndRepeatedUntil(entry) : Wanted(&entry);
    const bool refused =
        over ? entry.end_refused
             : entry.refused.has_value() && *entry.refused >= SeverityOf(row.alert());
    if (!shown || refused) continue;
    const bool news = entry.sent_state != StateOf(entry, now) ||
                      (!over && GravestTold(delivery) < SeverityOf(row.alert()));
    if (news) entry.waits_since = std::min(waits_since, now);
    due = due || news || now >= entry.sent_at + options_.resend;
    if (entry.sent_at != absl::InfinitePast()) WakeAt(entry.sent_at + options_.resend);
    // Those that are nearly due come along, so that all keep one beat.
    if (news || now >= entry.sent_at + options_.resend / 2) active.push_back(&entry);
  }
  if (!due) return;
  WakeAt(now + options_.resend);
  for (size_t begin = 0; begin < active.size(); begin += kStateAlertsMax) {
    const size_t end = std::min(active.size(), begin + kStateAlertsMax);
    const Entries part(active.begin() + static_cast<ptrdiff_t>(begin),
                       active.begin() + static_cast<ptrdiff_t>(end));
    if (!Send(MessageKind::kFiring, part, GroupName(*part.front()->row), now)) return;
  }
}

void Channel::TellChanges(absl::Time now) {
  while (!changes_.empty() && now >= not_before_) {
    const SendResult result = notifier_->SendChange(changes_.front());
    if (result.outcome == SendResult::Outcome::kRetry) return Retry(result, now);
    if (result.outcome == SendResult::Outcome::kRefused) {
      base::LogWarning("notify", "the receiver refuses the news of an attempt, and it is given up",
                       {{"notifier", options_.notifier},
                        {"run", changes_.front().run},
                        {"error", std::string(result.status.message())}});
    } else {
      failures_ = 0;
      Count("changes");
    }
    changes_.pop_front();
  }
}

bool Channel::TakeToken(absl::Time now) {
  if (options_.messages_per_hour_max == 0) return true;
  const auto full = static_cast<double>(options_.messages_per_hour_max);
  if (tokens_at_ != absl::InfinitePast()) {
    tokens_ = std::min(full, tokens_ + full * absl::ToDoubleHours(now - tokens_at_));
  }
  tokens_at_ = now;
  if (tokens_ < 1) {
    WakeAt(now + absl::Hours((1 - tokens_) / full) + absl::Milliseconds(1));
    return false;
  }
  tokens_ -= 1;
  return true;
}

bool Channel::Send(MessageKind kind, const Entries& entries, const std::string& group,
                   absl::Time now) {
  if (options_.recorded_first && !RecordFirst(kind, entries, group, now)) return false;
  Message message{.kind = kind, .group = group, .alerts = {}, .now = now};
  for (const Entry* entry : entries) {
    message.alerts.push_back(entry->row);
    const auto end = run_ends_.find(entry->row->alert().run());
    if (end != run_ends_.end() && now >= end->second.told_at) message.ended_runs.insert(*end);
  }
  const SendResult result = notifier_->Send(message);
  switch (result.outcome) {
    case SendResult::Outcome::kTaken:
      break;
    case SendResult::Outcome::kRetry:
      CountFailure("failed", entries.size(), now);
      Retry(result, now);
      return false;
    case SendResult::Outcome::kRefused:
      CountFailure("refused", entries.size(), now);
      base::LogError("notify", "the receiver refuses a message, and it is given up",
                     {{"notifier", options_.notifier},
                      {"message", group},
                      {"error", std::string(result.status.message())}});
      for (Entry* entry : entries) {
        entry->waits_since = absl::InfiniteFuture();
        const bool end = kind != MessageKind::kFiring || IsOver(*entry, now);
        entry->refused = SeverityOf(entry->row->alert());
        entry->end_refused = entry->end_refused || end;
      }
      return true;
  }
  failures_ = 0;
  for (Entry* entry : entries) {
    const bool repeated = options_.resend > absl::ZeroDuration() &&
                          entry->sent_state == StateOf(*entry, now) &&
                          entry->waits_since == absl::InfiniteFuture();
    Count(repeated ? "repeated" : "sent");
    entry->sent_at = now;
    entry->sent_state = StateOf(*entry, now);
    entry->waits_since = absl::InfiniteFuture();
    entry->held_back = false;
  }
  {
    base::MutexLock lock(&mutex_);
    stats_.last_success = now;
  }
  if (!options_.recorded_first) MarkTold(kind, entries, group, now);
  return true;
}

// False, and nothing has changed, when it could not be written down.
bool Channel::RecordFirst(MessageKind kind, const Entries& entries, const std::string& group,
                          absl::Time now) {
  std::vector<std::shared_ptr<const model::AlertRow>> before;
  for (const Entry* entry : entries) before.push_back(entry->row);
  MarkTold(kind, entries, group, now);
  const bool recorded = std::none_of(entries.begin(), entries.end(),
                                     [](const Entry* entry) { return entry->unrecorded; });
  if (recorded) return true;
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i]->row = before[i];
    entries[i]->unrecorded = false;
  }
  ended_groups_.erase(group);
  WakeAt(now + kRecordRetry);
  return false;
}

void Channel::MarkTold(MessageKind kind, const Entries& entries, const std::string& group,
                       absl::Time now) {
  if (kind == MessageKind::kResolved) ended_groups_.insert(group);
  for (Entry* entry : entries) {
    auto row = std::make_shared<model::AlertRow>(*entry->row);
    model::Delivery delivery;
    if (const model::Delivery* before = FindDelivery(*row, options_.notifier); before != nullptr) {
      delivery = *before;
    }
    delivery.set_notifier(options_.notifier);
    const std::optional<Severity> told = GravestTold(&delivery);
    const bool state = options_.resend > absl::ZeroDuration();
    const bool end = state ? IsOver(*entry, now) : kind == MessageKind::kResolved;
    bool changed = false;
    if (end && row->alert().state() != v1::ALERT_STATE_RESOLVED) {  // with its run
      for (model::Delivery::Told& message : *delivery.mutable_told()) {
        const bool whole = state || !options_.end_every_group;
        if (message.run_ended() || (!whole && message.group() != group)) continue;
        message.set_run_ended(true);
        changed = true;
      }
    } else if (end) {
      // With a message of its own for each severity, all of them must have ended.
      const int first = options_.end_every_group ? 0 : delivery.told_size() - 1;
      bool over = true;
      for (int i = std::max(0, first); i < delivery.told_size(); ++i) {
        over = over && (state || delivery.told(i).run_ended() ||
                        ended_groups_.contains(delivery.told(i).group()));
      }
      changed = over && !delivery.resolved();
      if (over) delivery.set_resolved(true);
    } else if (kind == MessageKind::kAcknowledged) {
      changed = !delivery.acknowledged();
      delivery.set_acknowledged(true);
    } else if (!told.has_value() || *told < SeverityOf(row->alert())) {
      model::Delivery::Told* news = delivery.add_told();
      news->set_severity(std::string(SeverityName(SeverityOf(row->alert()))));
      news->set_group(group);
      news->set_time_unix_ns(absl::ToUnixNanos(now));
      changed = true;
    }
    if (!changed) continue;
    MergeDelivery(delivery, row.get());
    entry->row = std::move(row);
    Record(entry);
  }
}

void Channel::Retry(const SendResult& result, absl::Time now) {
  ++failures_;
  not_before_ = now + std::max(Backoff(failures_, deps_.random()), result.retry_after);
  WakeAt(not_before_);
  base::LogEvery(
      absl::StrCat("notify.send.", options_.notifier), base::LogLevel::kWarning, "notify",
      "sending failed and will be tried again",
      {{"notifier", options_.notifier},
       {"failures", absl::StrCat(failures_)},
       {"in", absl::FormatDuration(absl::Trunc(not_before_ - now, absl::Milliseconds(1)))},
       {"error", std::string(result.status.message())}});
}

// Whether nothing will be told of the row as it is.
bool Channel::Over(Entry* entry, absl::Time now) {
  if (entry->unrecorded || !IsOver(*entry, now)) return false;
  if (options_.resend <= absl::ZeroDuration()) return NeedOf(entry, now) == Need::kNothing;
  return !WasTold(FindDelivery(*entry->row, options_.notifier)) || entry->end_refused ||
         now >= EndRepeatedUntil(*entry);
}

// Of one that is over.
absl::Time Channel::EndRepeatedUntil(const Entry& entry) const {
  const model::AlertRow& row = *entry.row;
  if (row.alert().state() == v1::ALERT_STATE_RESOLVED) {
    return absl::FromUnixNanos(row.ended_unix_ns()) + kEndRepeated;
  }
  return run_ends_.at(row.alert().run()).told_at + kEndRepeated;
}

void Channel::Settle(absl::Time now) {
  size_t pending = 0;
  absl::Time oldest = absl::InfiniteFuture();
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (Over(&entry, now)) {
      deps_.done(*entry.row, entry.version);
      it = entries_.erase(it);
      continue;
    }
    if (entry.unrecorded) WakeAt(now + kRecordRetry);
    if (entry.waits_since != absl::InfiniteFuture()) {
      ++pending;
      oldest = std::min(oldest, entry.waits_since);
    }
    ++it;
  }
  if (entries_.empty()) ended_groups_.clear();
  if (!entries_.empty()) WakeAt(now + kLookAgain);
  base::MutexLock lock(&mutex_);
  stats_.pending = pending;
  stats_.oldest_pending = oldest;
}

void Channel::Count(const std::string& result, uint64_t n) {
  base::MutexLock lock(&mutex_);
  stats_.results[result] += n;
}

void Channel::CountFailure(const std::string& result, uint64_t n, absl::Time now) {
  Count(result, n);
  base::MutexLock lock(&mutex_);
  stats_.last_failure = now;
}

}  // namespace foreshock::notify
