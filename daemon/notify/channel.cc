#include "daemon/notify/channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/notify/delivery.h"

namespace foreshock::notify {
namespace {

constexpr absl::Duration kRecordRetry = absl::Seconds(1);
// Silences and the ends of runs take effect without a word to the channel.
constexpr absl::Duration kLookAgain = absl::Seconds(5);

std::unique_ptr<Policy> PolicyOf(const Channel::Options& options) {
  if (options.resend > absl::ZeroDuration()) {
    return StatePolicy({.notifier = options.notifier, .resend = options.resend});
  }
  return NewsPolicy({.notifier = options.notifier,
                     .group_wait = options.group_wait,
                     .end_every_group = options.end_every_group});
}

}  // namespace

Channel::Channel(Options options, std::unique_ptr<Notifier> notifier, Deps deps)
    : options_(std::move(options)),
      notifier_(std::move(notifier)),
      deps_(std::move(deps)),
      policy_(PolicyOf(options_)),
      tokens_(options_.messages_per_hour_max) {}

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
  wake_at_ = absl::InfiniteFuture();
  TakeInbox();
  Moment moment{.now = deps_.clock->Now(),
                .steady = deps_.clock->Steady(),
                .last = last,
                .run_ends = &run_ends_,
                .gate = [this](const v1::Alert& alert) { return GateOf(alert); }};
  for (auto& [id, alert] : alerts_) {
    if (alert.unrecorded) alert.unrecorded = !Record(*alert.row);
  }
  while (!retry_.Waits(moment.steady)) {
    const Plan plan = policy_->Due(&alerts_, moment);
    if (SendAll(plan, moment)) continue;  // the next plan has what follows from these
    WakeAt(plan.next);
    break;
  }
  SendChanges(moment);
  if (retry_.Waits(moment.steady)) WakeAt(retry_.until());
  moment.now = deps_.clock->Now();
  moment.steady = deps_.clock->Steady();
  DropFinished(moment);
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
      run_ends_.erase(run);
      if (end.has_value()) run_ends_.emplace(run, *std::move(end));
    }
  }
  for (auto& [id, item] : offered) {
    TrackedAlert& alert = alerts_[id];
    alert.version = item.version;
    const model::Delivery* taken =
        alert.row == nullptr ? nullptr : FindDelivery(*alert.row, options_.notifier);
    if (taken == nullptr) {
      alert.row = std::move(item.row);
      continue;
    }
    // The offer may be older than what the receiver has taken since.
    auto merged = std::make_shared<model::AlertRow>(*item.row);
    MergeDelivery(*taken, merged.get());
    alert.row = std::move(merged);
  }
}

Gate Channel::GateOf(const v1::Alert& alert) const {
  if (SeverityOf(alert) < options_.severity_min || !MatchesAll(options_.match, alert)) {
    return Gate::kFiltered;
  }
  return deps_.silenced && deps_.silenced(alert).has_value() ? Gate::kSilenced : Gate::kOpen;
}

// True: something was sent, and more may follow in this turn.
bool Channel::SendAll(const Plan& plan, const Moment& moment) {
  bool sent = false;
  for (const Outgoing& message : plan.messages) {
    // The end of what was told is never held back.
    const bool limited = message.kind == MessageKind::kFiring;
    if (limited && !tokens_.Take(moment.steady)) {
      HoldBack(message);
      continue;
    }
    if (!Send(message, moment)) return false;
    sent = true;
  }
  return sent;
}

void Channel::HoldBack(const Outgoing& message) {
  for (TrackedAlert* alert : message.alerts) {
    if (!std::exchange(alert->held_back, true)) Count("rate_limited");
  }
  WakeAt(tokens_.next());
}

bool Channel::Send(const Outgoing& message, const Moment& moment) {
  std::vector<Decision> decisions;  // before the record of what was taken changes them
  for (const TrackedAlert* alert : message.alerts) {
    decisions.push_back(policy_->Decide(*alert, moment));
  }
  if (options_.recorded_first && !RecordFirst(message, moment)) {
    WakeAt(moment.steady + kRecordRetry);
    return false;
  }
  Message out{.kind = message.kind, .group = message.group, .alerts = {}, .now = moment.now};
  for (size_t i = 0; i < decisions.size(); ++i) {
    out.alerts.push_back(message.alerts[i]->row);
    const v1::Alert& alert = out.alerts.back()->alert();
    const RunEnd* const end = moment.RunEndOf(alert);
    if (end != nullptr && moment.now >= end->told_at) out.ended_runs.emplace(alert.run(), *end);
    if (!decisions[i].muted) continue;
    const std::optional<v1::Silence> silence = deps_.silenced(alert);
    if (silence.has_value()) out.silences.emplace(alert.id(), *silence);
  }
  const SendResult result = notifier_->Send(out);
  if (result.outcome == SendResult::Outcome::kRetry) {
    Count("failed", message.alerts.size());
    Retry(result, moment);
    return false;
  }
  if (result.outcome == SendResult::Outcome::kRefused) {
    GiveUp(message, result, moment);
    return true;
  }
  retry_.Succeeded();
  for (size_t i = 0; i < decisions.size(); ++i) {
    TrackedAlert& alert = *message.alerts[i];
    Count(decisions[i].why == Why::kShownAgain ? "repeated" : "sent");
    base::LogDebug("notify", "told",
                   {{"notifier", options_.notifier},
                    {"alert", alert.row->alert().id()},
                    {"why", std::string(WhyName(decisions[i].why))}});
    alert.shown = decisions[i];
    alert.sent_at = moment.steady;
    alert.waits_since = absl::InfiniteFuture();
    alert.held_back = false;
  }
  {
    base::MutexLock lock(&mutex_);
    stats_.last_success = moment.now;
    stats_.troubles = notifier_->Troubles();
  }
  if (!options_.recorded_first) RecordTaken(message, moment);
  return true;
}

void Channel::GiveUp(const Outgoing& message, const SendResult& result, const Moment& moment) {
  Count("refused", message.alerts.size());
  base::LogError("notify", "the receiver refuses a message; the daemon gives it up",
                 {{"notifier", options_.notifier},
                  {"message", message.group},
                  {"error", std::string(result.status.message())}});
  for (TrackedAlert* alert : message.alerts) {
    alert->waits_since = absl::InfiniteFuture();
    alert->given_up = SeverityOf(alert->row->alert());
    if (message.kind != MessageKind::kFiring || moment.IsOver(*alert->row)) {
      alert->end_given_up = true;
    }
  }
  base::MutexLock lock(&mutex_);
  stats_.last_failure = moment.now;
}

void Channel::SendChanges(const Moment& moment) {
  while (!changes_.empty() && !retry_.Waits(moment.steady)) {
    const SendResult result = notifier_->SendChange(changes_.front());
    if (result.outcome == SendResult::Outcome::kRetry) return Retry(result, moment);
    if (result.outcome == SendResult::Outcome::kRefused) {
      base::LogWarning("notify",
                       "the receiver refuses the news of an attempt; the daemon gives it up",
                       {{"notifier", options_.notifier},
                        {"run", changes_.front().run},
                        {"error", std::string(result.status.message())}});
    } else {
      retry_.Succeeded();
      Count("changes");
    }
    changes_.pop_front();
  }
}

void Channel::Retry(const SendResult& result, const Moment& moment) {
  retry_.Failed(moment.steady, deps_.random(), result.retry_after);
  base::LogEvery(absl::StrCat("notify.send.", options_.notifier), base::LogLevel::kWarning,
                 "notify", "sending failed; the daemon will try again",
                 {{"notifier", options_.notifier},
                  {"failures", absl::StrCat(retry_.failures())},
                  {"in", absl::FormatDuration(
                             absl::Trunc(retry_.until() - moment.steady, absl::Milliseconds(1)))},
                  {"error", std::string(result.status.message())}});
  base::MutexLock lock(&mutex_);
  stats_.last_failure = moment.now;
}

// ---- What the receiver has taken.

// False: it could not be recorded, and nothing has changed.
bool Channel::RecordFirst(const Outgoing& message, const Moment& moment) {
  std::vector<std::shared_ptr<const model::AlertRow>> before;
  for (const TrackedAlert* alert : message.alerts) before.push_back(alert->row);
  RecordTaken(message, moment);
  const bool recorded = std::none_of(message.alerts.begin(), message.alerts.end(),
                                     [](const TrackedAlert* alert) { return alert->unrecorded; });
  if (recorded) return true;
  for (size_t i = 0; i < message.alerts.size(); ++i) {
    message.alerts[i]->row = before[i];
    message.alerts[i]->unrecorded = false;
  }
  return false;
}

void Channel::RecordTaken(const Outgoing& message, const Moment& moment) {
  for (TrackedAlert* alert : message.alerts) {
    const model::Delivery taken = policy_->AfterTaken(message, *alert, moment);
    const model::Delivery* const known = FindDelivery(*alert->row, options_.notifier);
    if (known != nullptr && known->SerializeAsString() == taken.SerializeAsString()) continue;
    auto row = std::make_shared<model::AlertRow>(*alert->row);
    MergeDelivery(taken, row.get());
    alert->row = std::move(row);
    alert->unrecorded = !Record(*alert->row);
  }
}

bool Channel::Record(const model::AlertRow& row) {
  const absl::Status status = deps_.record(row, *FindDelivery(row, options_.notifier));
  if (status.ok() || absl::IsNotFound(status)) return true;  // not found: the run was deleted
  base::LogEvery(absl::StrCat("notify.record.", options_.notifier), base::LogLevel::kError,
                 "notify",
                 "what the receiver took cannot be stored; after a restart now it is sent again",
                 {{"notifier", options_.notifier}, {"error", std::string(status.message())}});
  return false;
}

// ---- The end of a turn.

void Channel::DropFinished(const Moment& moment) {
  size_t pending = 0;
  absl::Time oldest = absl::InfiniteFuture();
  for (auto it = alerts_.begin(); it != alerts_.end();) {
    TrackedAlert& alert = it->second;
    const Decision decision = policy_->Decide(alert, moment);
    const bool silenced = decision.muted || decision.why == Why::kSilenced;
    if ((silenced || decision.why == Why::kFiltered) && !std::exchange(alert.counted_out, true)) {
      Count(silenced ? "silenced" : "filtered");
    }
    const bool over = decision.tell == Tell::kNothing && moment.IsOver(*alert.row);
    if (over && !alert.unrecorded) {
      deps_.done(*alert.row, alert.version);
      it = alerts_.erase(it);
      continue;
    }
    if (alert.unrecorded) WakeAt(moment.steady + kRecordRetry);
    if (alert.waits_since != absl::InfiniteFuture()) {
      ++pending;
      oldest = std::min(oldest, alert.waits_since);
    }
    ++it;
  }
  if (!alerts_.empty()) WakeAt(moment.steady + kLookAgain);
  base::MutexLock lock(&mutex_);
  stats_.pending = pending;
  stats_.oldest_pending = moment.now - (moment.steady - oldest);
}

void Channel::Count(const std::string& result, uint64_t n) {
  base::MutexLock lock(&mutex_);
  stats_.results[result] += n;
}

}  // namespace foreshock::notify
