#include "daemon/notify/outbox.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/notify/delivery.h"
#include "daemon/notify/log_notifier.h"
#include "daemon/notify/make_notifier.h"

namespace foreshock::notify {
namespace {

void AddStats(const Channel& channel, std::map<std::string, Outbox::NotifierStats>* all) {
  const Channel::Stats stats = channel.stats();
  Outbox::NotifierStats& sum = (*all)[channel.notifier()];
  for (const auto& [result, count] : stats.results) sum.results[result] += count;
  sum.pending += stats.pending;
  sum.oldest_pending = std::min(sum.oldest_pending, stats.oldest_pending);
  sum.last_success = std::max(sum.last_success, stats.last_success);
  sum.last_failure = std::max(sum.last_failure, stats.last_failure);
  sum.troubles.insert(stats.troubles.begin(), stats.troubles.end());
}

// A message that is being sent when the notifiers are replaced may end, so it is not sent twice.
constexpr absl::Duration kReplaceGrace = absl::Seconds(2);

// Stands in where no notifier is configured, so that alerts leave the outbox.
MadeChannel Nobody() {
  const absl::StatusOr<base::LabelMatcher> never = base::LabelMatcher::Parse("id=");
  FORESHOCK_CHECK(never.ok());
  return {{.notifier = "none", .match = {*never}}, std::make_unique<LogNotifier>()};
}

}  // namespace

Outbox::Outbox(Options options, Deps deps) : options_(options), deps_(std::move(deps)) {}

Outbox::~Outbox() { Stop(absl::ZeroDuration()); }

absl::Status Outbox::SetNotifiers(const std::vector<NotifierOptions>& notifiers,
                                  const std::string& external_url) {
  base::MutexLock set_lock(&set_mutex_);
  std::vector<MadeChannel> made;
  for (const NotifierOptions& options : notifiers) {
    FORESHOCK_ASSIGN_OR_RETURN(std::vector<MadeChannel> channels,
                               MakeChannels(options, external_url));
    std::move(channels.begin(), channels.end(), std::back_inserter(made));
  }
  if (made.empty()) made.push_back(Nobody());
  // The new notifiers must know what the old ones told.
  const Workers old = workers();
  End(old, kReplaceGrace);
  Workers fresh;
  for (size_t i = 0; i < made.size(); ++i) {
    Channel::Deps deps = {
        .clock = deps_.clock,
        .random =
            [this] {
              base::MutexLock lock(&mutex_);
              return absl::Uniform(random_, 0.0, 1.0);
            },
        .silenced = deps_.silenced,
        .record = [this](const model::AlertRow& row,
                         const model::Delivery& delivery) { return Record(row, delivery); },
        .done = [this, i](const model::AlertRow& row, uint64_t version) { Done(i, row, version); }};
    auto worker = std::make_shared<Worker>();
    worker->channel = std::make_unique<Channel>(std::move(made[i].options),
                                                std::move(made[i].notifier), std::move(deps));
    fresh.push_back(std::move(worker));
  }
  base::MutexLock lock(&mutex_);
  for (const auto& worker : old) AddStats(*worker->channel, &past_);
  workers_ = fresh;
  for (auto& [id, known] : alerts_) known.done.clear();
  for (const auto& worker : workers_) {
    for (const auto& [run, end] : run_ends_) worker->channel->SetRunEnd(run, end);
    for (const auto& [id, known] : alerts_) worker->channel->Offer(known.row, known.version);
    worker->thread = std::thread([this, raw = worker.get()] { Loop(raw); });
  }
  return absl::OkStatus();
}

void Outbox::Offer(const model::AlertRow& row) {
  base::MutexLock lock(&mutex_);
  const std::string& id = row.alert().id();
  if (!alerts_.contains(id) && alerts_.size() >= options_.alerts_max) {
    ++left_out_;
    base::LogEvery(
        "notify.left_out", base::LogLevel::kError, "notify",
        absl::StrCat("more than ", options_.alerts_max,
                     " alerts fire or wait to be told; receivers hear of the newest only "
                     "after a restart"));
    return;
  }
  Known& known = alerts_[id];
  auto fresh = std::make_shared<model::AlertRow>(row);
  if (known.row != nullptr) {
    for (const model::Delivery& delivery : known.row->deliveries()) {
      MergeDelivery(delivery, fresh.get());
    }
  }
  known.row = std::move(fresh);
  known.version = ++versions_;
  known.done.clear();
  for (const auto& worker : workers_) {
    worker->channel->Offer(known.row, known.version);
    Wake(worker.get());
  }
}

void Outbox::SetRunEnd(const std::string& run, const std::optional<RunEnd>& end) {
  base::MutexLock lock(&mutex_);
  TellRunEnd(run, end);
}

void Outbox::DropRun(const std::string& run) {
  base::MutexLock lock(&mutex_);
  std::optional<RunEnd> end;
  if (KnowsAlertOf(run)) {
    const absl::Time now = deps_.clock->Now();
    end = RunEnd{.why = "the run was deleted", .at = now, .told_at = now, .deleted = true};
  }
  TellRunEnd(run, end);
  for (const auto& worker : workers_) Wake(worker.get());
}

bool Outbox::KnowsAlertOf(const std::string& run) const {
  return std::any_of(alerts_.begin(), alerts_.end(),
                     [&run](const auto& known) { return known.second.row->alert().run() == run; });
}

void Outbox::TellRunEnd(const std::string& run, const std::optional<RunEnd>& end) {
  run_ends_.erase(run);
  if (end.has_value()) run_ends_[run] = *end;
  for (const auto& worker : workers_) worker->channel->SetRunEnd(run, end);
}

void Outbox::OfferChange(const RunChange& change) {
  for (const auto& worker : workers()) {
    worker->channel->OfferChange(change);
    Wake(worker.get());
  }
}

void Outbox::LookAgain() {
  for (const auto& worker : workers()) Wake(worker.get());
}

void Outbox::Stop(absl::Duration grace) {
  base::MutexLock set_lock(&set_mutex_);
  const Workers old = workers();
  End(old, grace);
  base::MutexLock lock(&mutex_);
  for (const auto& worker : old) AddStats(*worker->channel, &past_);
  workers_.clear();
}

Outbox::Workers Outbox::workers() const {
  base::MutexLock lock(&mutex_);
  return workers_;
}

void Outbox::End(const Workers& workers, absl::Duration grace) {
  const absl::Time deadline = base::SteadyNow() + grace;
  for (const auto& worker : workers) {
    base::MutexLock lock(&worker->mutex);
    worker->stopping = true;
    worker->wakeup.NotifyAll();
  }
  for (const auto& worker : workers) {
    base::MutexLock lock(&worker->mutex);
    while (!worker->ended) {
      const absl::Duration left = deadline - base::SteadyNow();
      if (left <= absl::ZeroDuration()) break;
      worker->wakeup.WaitFor(&worker->mutex, left);
    }
  }
  for (const auto& worker : workers) worker->channel->Cancel();
  for (const auto& worker : workers) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

std::map<std::string, Outbox::NotifierStats> Outbox::stats() const {
  base::MutexLock lock(&mutex_);
  std::map<std::string, NotifierStats> all = past_;
  // Nothing waits for channels that are gone.
  for (auto& [name, stats] : all) {
    stats.pending = 0;
    stats.oldest_pending = absl::InfiniteFuture();
    stats.troubles.clear();
  }
  for (const auto& worker : workers_) AddStats(*worker->channel, &all);
  return all;
}

// ---- A worker's thread.

void Outbox::Loop(Worker* worker) {
  while (true) {
    bool last = false;
    {
      base::MutexLock lock(&worker->mutex);
      worker->woken = false;
      last = worker->stopping;
    }
    const absl::Time next = worker->channel->Turn(last);
    base::MutexLock lock(&worker->mutex);
    if (last) {
      worker->ended = true;
      worker->wakeup.NotifyAll();
      return;
    }
    while (!worker->woken && !worker->stopping) {
      const absl::Duration left = next - deps_.clock->Steady();
      if (left <= absl::ZeroDuration()) break;
      if (left == absl::InfiniteDuration()) {
        worker->wakeup.Wait(&worker->mutex);
      } else {
        worker->wakeup.WaitFor(&worker->mutex, left);
      }
    }
  }
}

void Outbox::Wake(Worker* worker) {
  base::MutexLock lock(&worker->mutex);
  worker->woken = true;
  worker->wakeup.NotifyAll();
}

absl::Status Outbox::Record(const model::AlertRow& row, const model::Delivery& delivery) {
  {
    // Channels that are made later need it, even if the store does not take it now.
    base::MutexLock lock(&mutex_);
    if (const auto known = alerts_.find(row.alert().id()); known != alerts_.end()) {
      auto merged = std::make_shared<model::AlertRow>(*known->second.row);
      MergeDelivery(delivery, merged.get());
      known->second.row = std::move(merged);
    }
  }
  return deps_.update(row.alert().run(), row.alert().id(),
                      [&delivery](model::AlertRow* stored) { MergeDelivery(delivery, stored); });
}

void Outbox::Done(size_t channel, const model::AlertRow& row, uint64_t version) {
  const std::string& id = row.alert().id();
  {
    base::MutexLock lock(&mutex_);
    const auto known = alerts_.find(id);
    if (known == alerts_.end() || known->second.version != version) return;
    known->second.done.insert(channel);
    if (known->second.done.size() < workers_.size()) return;
    alerts_.erase(known);
    const std::string& run = row.alert().run();
    const auto end = run_ends_.find(run);
    if (end != run_ends_.end() && end->second.deleted && !KnowsAlertOf(run)) {
      TellRunEnd(run, std::nullopt);
    }
  }
  // A newer row may be on its way: then receivers are still to be told.
  const absl::Status status = deps_.update(row.alert().run(), id, [&row](model::AlertRow* stored) {
    if (stored->alert().state() == row.alert().state() &&
        stored->alert().severity() == row.alert().severity()) {
      stored->set_undelivered(false);
    }
  });
  if (!status.ok() && !absl::IsNotFound(status)) {
    base::LogEvery("notify.done", base::LogLevel::kWarning, "notify",
                   absl::StrCat("alert ", id,
                                " cannot be marked as told; the next start looks at it "
                                "again: ",
                                status.message()));
  }
}

}  // namespace foreshock::notify
