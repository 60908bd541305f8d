// The alerts of which someone is still to be told, and a thread for each receiver that tells them.
// What is due is derived from the alerts' stored rows, so the store is the outbox: nothing that was
// committed is lost, and what a receiver took is not told again, over restarts too.
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
    size_t alerts_max = 10'000;  // at once; more are told after a restart
  };
  struct Deps {
    const base::Clock* clock = nullptr;
    // Changes the stored row of an alert and returns when that is committed. Called on the threads
    // of the outbox, with no lock held.
    std::function<absl::Status(const std::string& run, const std::string& id,
                               const std::function<void(model::AlertRow*)>& change)>
        update{};
    // Whether nobody is to be told of it now; may be unset.
    std::function<bool(const v1::Alert&)> silenced{};
  };
  struct NotifierStats {
    std::map<std::string, uint64_t> results{};  // Channel::Stats, over all its receivers
    size_t pending = 0;
    absl::Time oldest_pending = absl::InfiniteFuture();
    absl::Time last_success = absl::InfinitePast();
    absl::Time last_failure = absl::InfinitePast();
  };

  Outbox(Options options, Deps deps);
  ~Outbox();  // as Stop without a grace

  // Replaces the notifiers, or leaves everything as it was and says why (MakeChannels). Their
  // threads start; those of the old ones are waited for, a few seconds at most.
  absl::Status SetNotifiers(const std::vector<NotifierOptions>& notifiers,
                            const std::string& external_url);

  // A committed row. Waits for nothing, so that it can be called by the writer's thread.
  void Offer(const model::AlertRow& row);
  // The run has ended; unset: somebody speaks for it (again). What still fires in it then has left
  // the outbox, if it had ended for long: offer it anew.
  void SetRunEnd(const std::string& run, const std::optional<RunEnd>& end);
  // The run was deleted. Who was told of an alert of it is told that it is over; a restart before
  // that forgets to.
  void DropRun(const std::string& run);
  // A run goes on in a new attempt.
  void OfferChange(const RunChange& change);

  // A silence has begun or ended: look at once what that means.
  void LookAgain();

  // Tells what is due without waiting for company, for at most `grace`, and ends the threads. What
  // is not told by then is told after the next start.
  void Stop(absl::Duration grace);

  std::map<std::string, NotifierStats> stats() const;
  uint64_t left_out() const { return left_out_; }  // over alerts_max

 private:
  struct Known {
    std::shared_ptr<const model::AlertRow> row{};
    uint64_t version = 0;
    std::set<size_t> done{};  // channels
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
  std::map<std::string, NotifierStats> past_ ABSL_GUARDED_BY(mutex_);  // of replaced channels
  absl::BitGen random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::notify
