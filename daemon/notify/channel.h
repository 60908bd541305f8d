// Tells one receiver what is due, and keeps what the receiver has taken. A policy says what is due;
// the channel limits messages, sends them, records what was taken and tries again after failures.
// It derives all this from the alerts' rows, so a restart builds it again. It has no thread: the
// outbox turns it.
//
//   Channel channel({.notifier = "oncall", .group_wait = absl::Seconds(5)}, std::move(notifier),
//                   {.clock = &clock, .random = random, .record = record, .done = done});
//   channel.Offer(row, version);
//   absl::Time next = channel.Turn(/*last=*/false);     // sends what is due; turn again at `next`
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/model/rows.pb.h"
#include "daemon/notify/matcher.h"
#include "daemon/notify/notifier.h"
#include "daemon/notify/policy.h"
#include "daemon/notify/retry_clock.h"
#include "daemon/notify/token_bucket.h"

namespace foreshock::notify {

// Thread-safe, but Turn is for one thread.
class Channel {
 public:
  struct Options {
    std::string notifier = "log";
    Severity severity_min = Severity::kInfo;
    std::vector<base::LabelMatcher> match{};
    absl::Duration group_wait{};        // NewsOptions
    int64_t messages_per_hour_max = 0;  // messages that something fires; 0: no limit
    absl::Duration resend{};            // given: the receiver wants the state (StateOptions)
    // For a receiver that cannot recognise a repeated message. What it is told is recorded before
    // it is sent, so a crash loses one message and repeats none.
    bool recorded_first = false;
    bool end_every_group = false;  // NewsOptions
    // New attempts of runs are told too. They are not recorded: a restart forgets them.
    bool changes = false;
  };
  struct Deps {
    const base::Clock* clock = nullptr;
    std::function<double()> random{};  // in [0, 1)
    // The silence that holds the alert back, the longest if there are several; may be unset.
    std::function<std::optional<v1::Silence>(const v1::Alert&)> silenced{};
    // Records what the receiver took. After an error the channel calls it again.
    std::function<absl::Status(const model::AlertRow&, const model::Delivery&)> record{};
    // Nothing is left to be told of this version of the row.
    std::function<void(const model::AlertRow&, uint64_t version)> done{};
  };
  struct Stats {
    // Alerts by result: "sent", "repeated", "failed" (will be tried again), "refused" (given up),
    // "filtered" (another route's), "silenced", "rate_limited" (told later, in one message).
    // "changes" counts new attempts of runs that were told.
    std::map<std::string, uint64_t> results{};
    size_t pending = 0;                                  // alerts with something to be told
    absl::Time oldest_pending = absl::InfiniteFuture();  // since when the first of them waits
    absl::Time last_success = absl::InfinitePast();
    absl::Time last_failure = absl::InfinitePast();  // or refusal
    std::set<std::string> troubles{};                // Notifier::Troubles
  };

  Channel(Options options, std::unique_ptr<Notifier> notifier, Deps deps);

  // The newest row of an alert that fires or has ended.
  void Offer(std::shared_ptr<const model::AlertRow> row, uint64_t version);
  // The run has ended. Unset: it goes on. An alert that was told as over with its run and fires is
  // told again once it is offered again.
  void SetRunEnd(const std::string& run, const std::optional<RunEnd>& end);
  // At most kChangesMax wait; the oldest are forgotten.
  void OfferChange(const RunChange& change);
  static constexpr size_t kChangesMax = 64;

  // Sends what is due; `last`: also what waits for company. Returns when to turn again (steady),
  // unless something is offered before.
  absl::Time Turn(bool last);
  void Cancel() { notifier_->Cancel(); }

  const std::string& notifier() const { return options_.notifier; }
  Stats stats() const;

 private:
  struct Offered {
    std::shared_ptr<const model::AlertRow> row{};
    uint64_t version = 0;
  };

  void TakeInbox();
  Gate GateOf(const v1::Alert& alert) const;
  bool SendAll(const Plan& plan, const Moment& moment);
  // False: nothing more is to be sent in this turn.
  bool Send(const Outgoing& message, const Moment& moment);
  void HoldBack(const Outgoing& message);
  void GiveUp(const Outgoing& message, const SendResult& result, const Moment& moment);
  void SendChanges(const Moment& moment);
  void Retry(const SendResult& result, const Moment& moment);

  bool RecordFirst(const Outgoing& message, const Moment& moment);
  void RecordTaken(const Outgoing& message, const Moment& moment);
  // False: the store did not take it.
  bool Record(const model::AlertRow& row);

  void DropFinished(const Moment& moment);

  void Count(const std::string& result, uint64_t n = 1);
  void WakeAt(absl::Time time) { wake_at_ = std::min(wake_at_, time); }

  const Options options_;
  const std::unique_ptr<Notifier> notifier_;
  const Deps deps_;
  const std::unique_ptr<Policy> policy_;

  // Only in Turn.
  TrackedAlerts alerts_;
  std::map<std::string, RunEnd> run_ends_;  // by run, also those that are not told yet
  std::deque<RunChange> changes_;           // to be told, the oldest first
  RetryClock retry_;
  TokenBucket tokens_;
  absl::Time wake_at_ = absl::InfiniteFuture();

  mutable base::Mutex mutex_;
  std::map<std::string, Offered> inbox_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::optional<RunEnd>> inbox_run_ends_ ABSL_GUARDED_BY(mutex_);
  std::vector<RunChange> inbox_changes_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::notify
