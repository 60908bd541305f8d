// The alerts that receivers are still to be told of, and a thread for each receiver. What is due is
// derived from the alerts' stored rows, so the store is the outbox. A restart loses nothing that
// was committed, and repeats nothing that a receiver took.
//
//   Outbox outbox({.clock = &clock, .update = update});
//   for (row of the store with row.undelivered()) outbox.Offer(row);
//   FORESHOCK_RETURN_IF_ERROR(outbox.SetNotifiers(config.notifiers, "https://..."));
//   outbox.Offer(row);                     // when one was committed
//   outbox.Stop(absl::Seconds(2));
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/notify/channel.h"
#include "daemon/notify/options.h"

namespace foreshock::notify {

// Thread-safe.
class Outbox {
 public:
  struct Options {
    size_t alerts_max = 10'000;  // at once; a restart tells of the others
  };
  struct Deps {
    const base::Clock* clock = nullptr;
    // Changes the stored row of an alert and returns once that is committed. Called by the outbox's
    // threads, which hold no lock.
    std::function<absl::Status(const std::string& run, const std::string& id,
                               const std::function<void(model::AlertRow*)>& change)>
        update{};
    // As Channel::Deps.
    std::function<std::optional<v1::Silence>(const v1::Alert&)> silenced{};
  };
  struct NotifierStats {
    std::map<std::string, uint64_t> results{};  // Channel::Stats, summed over its receivers
    size_t pending = 0;
    absl::Time oldest_pending = absl::InfiniteFuture();
    absl::Time last_success = absl::InfinitePast();
    absl::Time last_failure = absl::InfinitePast();
    std::set<std::string> troubles{};
  };

  Outbox(Options options, Deps deps);
  ~Outbox();  // stops without a grace

  // Replaces the notifiers and starts their threads. Waits a few seconds at most for the old ones.
  // Errors are MakeChannels'; then nothing has changed.
  absl::Status SetNotifiers(const std::vector<NotifierOptions>& notifiers,
                            const std::string& external_url);

  // A committed row. Waits for nothing, so the writer's thread may call it.
  void Offer(const model::AlertRow& row);
  // The run has ended; unset: it goes on. Alerts of a run that had ended for long have left the
  // outbox: offer those that still fire again.
  void SetRunEnd(const std::string& run, const std::optional<RunEnd>& end);
  // The run was deleted. Receivers that were told of its alerts are told that they are over. A
  // restart before that forgets it.
  void DropRun(const std::string& run);
  // A run goes on in a new attempt.
  void OfferChange(const RunChange& change);

  // A silence has begun or ended: look at once what is due now.
  void LookAgain();

  // Sends what is due for at most `grace`, without waiting for company, and ends the threads. The
  // next start tells what is left.
  void Stop(absl::Duration grace);

  std::map<std::string, NotifierStats> stats() const;
  uint64_t left_out() const { return left_out_; }  // over alerts_max

 private:
  struct Known {
    std::shared_ptr<const model::AlertRow> row{};
    uint64_t version = 0;
    std::set<size_t> done{};  // channels that have nothing left to tell
  };
  struct Worker {
    std::unique_ptr<Channel> channel{};
    std::thread thread{};
    base::Mutex mutex;
    base::CondVar wakeup;
    bool woken ABSL_GUARDED_BY(mutex) = false;
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    bool ended ABSL_GUARDED_BY(mutex) = false;
  };
  using Workers = std::vector<std::shared_ptr<Worker>>;

  Workers workers() const;
  void Loop(Worker* worker);
  void Wake(Worker* worker);
  void End(const Workers& workers, absl::Duration grace);
  absl::Status Record(const model::AlertRow& row, const model::Delivery& delivery);
  void Done(size_t channel, const model::AlertRow& row, uint64_t version);
  bool KnowsAlertOf(const std::string& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellRunEnd(const std::string& run, const std::optional<RunEnd>& end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Deps deps_;
  std::atomic<uint64_t> left_out_{0};

  base::Mutex set_mutex_;  // one SetNotifiers or Stop at a time
  mutable base::Mutex mutex_;
  Workers workers_ ABSL_GUARDED_BY(mutex_);
  uint64_t versions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Known> alerts_ ABSL_GUARDED_BY(mutex_);  // by id
  std::map<std::string, RunEnd> run_ends_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, NotifierStats> past_ ABSL_GUARDED_BY(mutex_);  // of channels that ended
  absl::BitGen random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::notify
