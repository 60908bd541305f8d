// What one receiver is told, and when: routing, grouping, rate limit, retries. It derives what is
// due from the alerts' rows and from what was told of them, so it can be thrown away at any moment
// and built again. No thread of its own: the outbox turns it.
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

namespace foreshock::notify {

// Thread-safe, but Turn is for one thread.
class Channel {
 public:
  struct Options {
    std::string notifier = "log";
    Severity severity_min = Severity::kInfo;
    std::vector<base::LabelMatcher> match{};
    // The first alert of a run waits so long for others to come along; zero: each goes alone.
    absl::Duration group_wait{};
    int64_t messages_per_hour_max = 0;  // that something fires; 0: no limit
    // Set: the receiver is told the state, again and again, instead of the news, once.
    absl::Duration resend{};
    // A receiver that cannot recognise a repeated message: what it is told is written down before,
    // so that a crash loses one message rather than repeat it.
    bool recorded_first = false;
    // The end is told of every message of an alert, not of the newest one alone.
    bool end_every_group = false;
    // New attempts of runs are told too. They are not written down: a restart forgets them.
    bool changes = false;
  };
  struct Deps {
    const base::Clock* clock = nullptr;
    std::function<double()> random{};  // in [0, 1)
    // Whether nobody is to be told of it now; may be unset.
    std::function<bool(const v1::Alert&)> silenced{};
    // Writes down what the receiver took. An error: it is asked again in a while.
    std::function<absl::Status(const model::AlertRow&, const model::Delivery&)> record{};
    // There is nothing left to tell of this version of the row.
    std::function<void(const model::AlertRow&, uint64_t version)> done{};
  };
  struct Stats {
    // Alerts by result: "sent", "repeated", "failed" (to be tried again), "refused" (given up),
    // "filtered" (another route's), "silenced", "rate_limited" (told late, in a message with
    // others). "changes": new attempts of runs that were told.
    std::map<std::string, uint64_t> results{};
    size_t pending = 0;                                  // alerts with something to be told
    absl::Time oldest_pending = absl::InfiniteFuture();  // since when the first of them waits
    absl::Time last_success = absl::InfinitePast();
    absl::Time last_failure = absl::InfinitePast();  // or refusal
  };

  Channel(Options options, std::unique_ptr<Notifier> notifier, Deps deps);

  // The newest row of an alert that fires or has ended.
  void Offer(std::shared_ptr<const model::AlertRow> row, uint64_t version);
  // What fires in the run will not end by itself any more; unset: somebody speaks for it (again),
  // and what was told as over with the run is told anew if it is offered and fires.
  void SetRunEnd(const std::string& run, const std::optional<RunEnd>& end);
  // At most kChangesMax wait; the oldest are forgotten.
  void OfferChange(const RunChange& change);
  static constexpr size_t kChangesMax = 64;

  // Sends what is due; `last`: also what waits for company. Returns when to turn again, unless
  // something is offered before.
  absl::Time Turn(bool last);
  void Cancel() { notifier_->Cancel(); }

  const std::string& notifier() const { return options_.notifier; }
  Stats stats() const;

 private:
  struct Offered {
    std::shared_ptr<const model::AlertRow> row{};
    uint64_t version = 0;
  };
  struct Entry {
    std::shared_ptr<const model::AlertRow> row{};  // with what was told, recorded or not
    uint64_t version = 0;
    bool unrecorded = false;
    std::optional<Severity> refused{};  // its beginning, at this severity
    bool end_refused = false;
    absl::Time waits_since = absl::InfiniteFuture();
    absl::Time sent_at = absl::InfinitePast();  // resend
    v1::AlertState sent_state = v1::ALERT_STATE_UNSPECIFIED;
    bool counted_out = false;  // as filtered or silenced
    bool held_back = false;    // by the rate limit
  };
  enum class Need { kNothing, kFiring, kAcknowledged, kResolved };
  using Entries = std::vector<Entry*>;

  void TakeInbox();
  void Record(Entry* entry);
  bool Wanted(Entry* entry);
  Need NeedOf(Entry* entry, absl::Time now);
  bool IsOver(const Entry& entry, absl::Time now) const;
  v1::AlertState StateOf(const Entry& entry, absl::Time now) const;
  std::string GroupName(const model::AlertRow& row) const;

  void TellNews(absl::Time now, bool last);
  void TellFiring(absl::Time now, bool last);
  void TellAcknowledged(absl::Time now);
  void TellEnds(absl::Time now);
  void TellState(absl::Time now);
  void TellChanges(absl::Time now);
  bool TakeToken(absl::Time now);
  // False: nothing more is to be sent in this turn.
  bool Send(MessageKind kind, const Entries& entries, const std::string& group, absl::Time now);
  bool RecordFirst(MessageKind kind, const Entries& entries, const std::string& group,
                   absl::Time now);
  void MarkTold(MessageKind kind, const Entries& entries, const std::string& group, absl::Time now);
  void Retry(const SendResult& result, absl::Time now);
  void Settle(absl::Time now);
  bool Over(Entry* entry, absl::Time now);
  absl::Time EndRepeatedUntil(const Entry& entry) const;

  void Count(const std::string& result, uint64_t n = 1);
  void CountFailure(const std::string& result, uint64_t n, absl::Time now);
  void WakeAt(absl::Time time) { wake_at_ = std::min(wake_at_, time); }

  const Options options_;
  const std::unique_ptr<Notifier> notifier_;
  const Deps deps_;

  // Only in Turn.
  std::map<std::string, Entry> entries_;    // by alert id
  std::map<std::string, RunEnd> run_ends_;  // by run, also of those whose time has not come
  std::set<std::string> ended_groups_;      // whose end was told
  std::deque<RunChange> changes_;           // to be told, oldest first
  int failures_ = 0;                        // in a row
  absl::Time not_before_ = absl::InfinitePast();
  double tokens_ = 0;
  absl::Time tokens_at_ = absl::InfinitePast();
  absl::Time wake_at_ = absl::InfiniteFuture();

  mutable base::Mutex mutex_;
  std::map<std::string, Offered> inbox_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::optional<RunEnd>> inbox_run_ends_ ABSL_GUARDED_BY(mutex_);
  std::vector<RunChange> inbox_changes_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

// So long to wait after `failures` failures in a row: random up to a limit that doubles from a
// second to five minutes, so that many daemons do not come back at once.
absl::Duration Backoff(int failures, double random);

}  // namespace foreshock::notify
