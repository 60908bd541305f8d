#include "daemon/pipeline/pipeline.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/pipeline/rank_stream.h"

namespace foreshock::pipeline {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kForgetInterval = absl::Seconds(1);
constexpr absl::Duration kClockAheadMax = absl::Hours(24);

}  // namespace

Pipeline::Pipeline(Options options, Deps deps)
    : options_(std::move(options)),
      deps_(std::move(deps)),
      inbox_({.items_max = options_.queue_items_max, .bytes_max = options_.queue_bytes_max},
             &stats_),
      rules_(deps_.rules) {}

Pipeline::~Pipeline() {
  const absl::Status stopped = Stop(absl::Seconds(5));
  if (stopped.ok()) return;
  base::LogWarning("pipeline", std::string(stopped.message()));
  (void)Stop(absl::InfiniteDuration());  // the threads use what is destroyed next
}

absl::Status Pipeline::Start() {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::RunRow> runs, deps_.store->Runs());
  for (const model::RunRow& run : runs) {
    const absl::Status loaded = LoadUnfinished(run.name());
    if (absl::IsDataLoss(loaded)) {  // the other runs are not to suffer for it
      base::LogError("pipeline", "a run cannot be read back and takes no reports",
                     {{"run", run.name()}, {"error", loaded.ToString()}});
      continue;
    }
    FORESHOCK_RETURN_IF_ERROR(loaded);
  }
  PublishRuns();
  writer_ = std::thread([this] {
    WriterLoop();
    Ended(&writer_ended_);
  });
  syncer_ = std::thread([this] {
    SyncLoop();
    Ended(&syncer_ended_);
  });
  return absl::OkStatus();
}

absl::Status Pipeline::LoadUnfinished(const std::string& run) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts,
                             deps_.store->Attempts(run));
  const bool ended = attempts.empty() || attempts.back().state() != v1::RUN_STATE_UNSPECIFIED;
  return ended ? absl::OkStatus() : LoadRun(run);  // else when somebody asks for it
}

absl::Status Pipeline::LoadRun(const std::string& run) {
  auto state = std::make_unique<RunState>(run, options_.run, rules_, deps_.store, &stats_);
  absl::StatusOr<std::vector<model::AlertRow>> alerts = state->Load(deps_.clock->Steady());
  FORESHOCK_RETURN_IF_ERROR(
      base::Annotate(alerts.status(), absl::StrCat("run '", run, "' cannot be read back")));
  deps_.listener->OnRun(run, state->status());
  runs_[run] = std::move(state);
  changed_.insert(run);
  for (const model::AlertRow& alert : *alerts) deps_.listener->OnAlert(alert, /*restored=*/true);
  return absl::OkStatus();
}

// ---- Any thread.

absl::Status Pipeline::CallAndCommit(const std::string& lane, std::function<absl::Status()> call) {
  // Shared: the writer's thread may still be inside set_value when this one has its answer.
  auto promise = std::make_shared<std::promise<absl::Status>>();
  FORESHOCK_RETURN_IF_ERROR(inbox_.Put(
      lane, CallWork{std::move(call),
                     [promise](const absl::Status& status) { promise->set_value(status); }}));
  return promise->get_future().get();
}

absl::StatusOr<std::unique_ptr<ingest::PushStream>> Pipeline::Open(
    const v1::Hello& hello, ingest::PushStream::AckFn on_ack, ingest::PushStream::EndFn on_end) {
  if (inbox_.draining()) return Inbox::DrainingError();
  auto stream = std::make_shared<RankStream>(&inbox_, hello, next_stream_++, std::move(on_ack),
                                             std::move(on_end));
  // From here on, so that a stream whose admission cannot be committed ends like any other.
  std::unique_ptr<ingest::PushStream> handle = RankStream::Handle(stream);
  FORESHOCK_RETURN_IF_ERROR(CallAndCommit(hello.run(), [this, &hello, &stream]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(RunState * run, FindRun(hello.run(), /*create=*/true));
    FORESHOCK_ASSIGN_OR_RETURN(const Admitted admitted,
                               run->Open(hello, stream->id(), deps_.clock->Now(), &changes_));
    v1::HelloAck ack;
    ack.set_attempt(admitted.attempt);
    ack.set_last_committed_seq(admitted.last_committed_seq);
    *ack.mutable_limits() = options_.limits;
    ack.set_server_version(options_.version);
    stream->Admit(admitted, ack);
    if (auto replaced = streams_.find(admitted.replaced); replaced != streams_.end()) {
      replaced->second->End(absl::AbortedError("the same process has opened a newer stream"));
    }
    streams_[stream->id()] = stream;
    stats_.streams = streams_.size();
    touched_.insert(hello.run());
    changed_.insert(hello.run());
    return absl::OkStatus();
  }));
  return handle;
}

absl::Status Pipeline::ReplaceRules(std::shared_ptr<const rules::RuleSet> rules) {
  return CallAndCommit(Inbox::kControl, [this, rules = std::move(rules)] {
    rules_ = rules;
    for (auto& [name, run] : runs_) run->ReplaceRules(rules, deps_.clock->Now(), &changes_);
    return absl::OkStatus();
  });
}

absl::StatusOr<uint32_t> Pipeline::DeclareEvent(const std::string& run, const v1::Event& event) {
  uint32_t attempt = 0;
  FORESHOCK_RETURN_IF_ERROR(CallAndCommit(run, [&]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(RunState * state, FindRun(run, /*create=*/false));
    FORESHOCK_ASSIGN_OR_RETURN(attempt, state->Declare(event, deps_.clock->Now(), &changes_.batch));
    return absl::OkStatus();
  }));
  return attempt;
}

absl::Status Pipeline::PinRun(const std::string& run, bool pinned) {
  return CallAndCommit(Inbox::kControl, [&]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(RunState * state, FindRun(run, /*create=*/false));
    state->SetPinned(pinned, &changes_.batch);
    return absl::OkStatus();
  });
}

absl::StatusOr<uint64_t> Pipeline::DeleteRun(const std::string& run) {
  uint64_t series = 0;
  FORESHOCK_RETURN_IF_ERROR(CallAndCommit(run, [&]() -> absl::Status {
    const auto state = runs_.find(run);
    if (state != runs_.end() && state->second->connected()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "run '", run, "' has connected ranks; it can be deleted once they are gone"));
    }
    // Nothing of the run may be written after it is gone.
    FORESHOCK_RETURN_IF_ERROR(
        base::Annotate(CommitAll(), absl::StrCat("run '", run, "' cannot be deleted")));
    FORESHOCK_ASSIGN_OR_RETURN(series, deps_.store->DeleteRun(run));
    // A stream that said Goodbye, or was replaced, may still be there: its end must not meet a
    // later run of the same name.
    absl::erase_if(streams_, [&run](const auto& entry) {
      if (entry.second->run() != run) return false;
      entry.second->End(absl::AbortedError(absl::StrCat("run '", run, "' has been deleted")));
      return true;
    });
    stats_.streams = streams_.size();
    runs_.erase(run);
    touched_.erase(run);
    changed_.insert(run);
    deps_.listener->OnRunDeleted(run);
    return absl::OkStatus();
  }));
  return series;
}

absl::Status Pipeline::UpdateAlert(const std::string& run, const std::string& id, bool tell,
                                   const std::function<void(model::AlertRow*)>& change) {
  return CallAndCommit(Inbox::kControl, [&]() -> absl::Status {
    const auto state = runs_.find(run);
    const model::AlertRow* const known =
        state == runs_.end() ? nullptr : state->second->alerts().Find(id);
    model::AlertRow row;
    if (known != nullptr) {
      row = *known;
      change(&row);
      state->second->alerts().Put(row, &changes_);
    } else {
      FORESHOCK_ASSIGN_OR_RETURN(row, StoredAlert(run, id));
      change(&row);
      changes_.batch.alerts.push_back({run, row});
    }
    if (tell) changes_.alerts.push_back(std::move(row));
    return absl::OkStatus();
  });
}

// Of a run that is not in memory, or an alert that is over.
absl::StatusOr<model::AlertRow> Pipeline::StoredAlert(const std::string& run,
                                                      const std::string& id) {
  // What waits in the batch would be newer than what is stored.
  FORESHOCK_RETURN_IF_ERROR(CommitAll());
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AlertRow> rows, deps_.store->Alerts(run));
  for (const model::AlertRow& row : rows) {
    if (row.alert().id() == id) return row;
  }
  return absl::NotFoundError(absl::StrCat("run '", run, "' has no alert '", id, "'"));
}

absl::Status Pipeline::Flush(absl::Duration deadline) {
  if (!writer_.joinable()) return absl::OkStatus();  // it never started
  auto committed = std::make_shared<std::promise<absl::Status>>();
  FORESHOCK_RETURN_IF_ERROR(inbox_.PutBehindAll(
      CallWork{[] { return absl::OkStatus(); },
               [committed](const absl::Status& status) { committed->set_value(status); }}));
  std::future<absl::Status> answer = committed->get_future();
  if (answer.wait_for(absl::ToChronoNanoseconds(deadline)) != std::future_status::ready) {
    return absl::DeadlineExceededError(
        absl::StrCat("what was queued is not committed after ",
                     absl::FormatDuration(absl::Trunc(deadline, absl::Milliseconds(1)))));
  }
  return answer.get();
}

std::map<std::string, std::vector<AttemptStatus>> Pipeline::runs() const {
  base::MutexLock lock(&published_mutex_);
  return published_;
}

void Pipeline::Drain() {
  if (!inbox_.Drain()) return;
  // Not taken only when the pipeline has stopped, and then no stream is left.
  (void)inbox_.PutBehindAll(CallWork{[] { return absl::OkStatus(); },
                                     [this](const absl::Status&) {
                                       for (auto& [id, stream] : streams_)
                                         stream->End(Inbox::DrainingError());
                                     }});
}

absl::Status Pipeline::Stop(absl::Duration deadline) {
  if (!writer_.joinable()) return absl::OkStatus();
  Drain();
  inbox_.Close();
  const absl::Time until = base::SteadyNow() + deadline;
  const std::string allowed = absl::FormatDuration(absl::Trunc(deadline, absl::Milliseconds(1)));
  {
    base::MutexLock lock(&threads_mutex_);
    if (!WaitUntil(until, writer_ended_)) {
      return absl::DeadlineExceededError(
          absl::StrCat("what was queued is not committed after ", allowed));
    }
    stop_syncing_ = true;
    threads_changed_.NotifyAll();
    if (!WaitUntil(until, syncer_ended_)) {
      return absl::DeadlineExceededError(absl::StrCat(
          "everything is committed, but the medium has not taken the log after ", allowed));
    }
  }
  writer_.join();
  syncer_.join();
  return absl::OkStatus();
}

bool Pipeline::WaitUntil(absl::Time until, const bool& ended) {
  while (!ended) {
    const absl::Duration left = until - base::SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    threads_changed_.WaitFor(&threads_mutex_, std::min(left, absl::Hours(1)));
  }
  return true;
}

void Pipeline::Ended(bool* ended) {
  base::MutexLock lock(&threads_mutex_);
  *ended = true;
  threads_changed_.NotifyAll();
}

// ---- The writer's thread.

void Pipeline::WriterLoop() {
  while (RunRound()) deps_.listener->OnRound();
  deps_.listener->OnRound();
}

bool Pipeline::RunRound() {
  std::optional<Work> work = inbox_.Take(touched_.empty() ? kTick : absl::ZeroDuration());
  const bool over = !work.has_value() && inbox_.closed();
  batch_started_ = deps_.clock->Steady();
  budget_ = BudgetFor(options_.round_time_max / 2);
  absl::Time begun = base::SteadyNow();
  size_t items = 0;
  size_t bytes = 0;
  for (; work.has_value(); work = inbox_.Take(absl::ZeroDuration())) {
    if (const auto* report = std::get_if<ReportWork>(&*work)) bytes += report->bytes;
    std::visit([this](auto& typed) { Handle(std::move(typed)); }, *work);
    const absl::Time done = base::SteadyNow();
    inbox_.Done(done - begun);
    begun = done;
    if (++items >= options_.round_items_max || bytes >= options_.round_bytes_max ||
        budget_.SpentBy(changes_)) {
      break;
    }
  }
  Settle(deps_.clock->Steady());
  Commit();
  return !over || !touched_.empty();
}

Budget Pipeline::BudgetFor(absl::Duration time) const {
  // What a store that refuses has left in the batch does not count again.
  return {.points_max = changes_.points + options_.round_points_max,
          .until = base::SteadyNow() + time};
}

void Pipeline::Handle(ReportWork work) {
  const RankStream& stream = *work.stream;
  const auto run = runs_.find(stream.run());
  if (run == runs_.end() || !streams_.contains(stream.id())) return;  // deleted meanwhile
  v1::Ack& ack = acks_[stream.id()];
  ack.set_seq(std::max<uint64_t>(ack.seq(), work.report.seq()));
  for (v1::Rejection& rejection : work.rejections) *ack.add_rejections() = std::move(rejection);
  const absl::Time now = deps_.clock->Steady();
  DropWrongTime(stream, &work.report);
  const RunState::Taken taken =
      run->second->Add(stream.attempt(), work.report, now, HasRoom(*run->second), &changes_.batch);
  if (taken.duplicate) ack.set_duplicates(ack.duplicates() + 1);
  if (!taken.refused.ok()) {
    v1::Rejection* rejection = ack.add_rejections();
    rejection->set_seq(work.report.seq());
    rejection->set_code(static_cast<uint32_t>(taken.refused.code()));
    rejection->set_reason(std::string(taken.refused.message()));
  }
  // At once, so that a round knows how many points it holds. What is left is settled later.
  if (work.report.last_of_step()) {
    (void)run->second->CloseDue(stream.attempt(), now, budget_, &changes_);
  }
  touched_.insert(stream.run());
}

// A rank's clock that is wrong by a day must not become the time of the step.
void Pipeline::DropWrongTime(const RankStream& stream, model::ShardReport* report) {
  const absl::Time said = absl::FromUnixNanos(report->time_unix_ns());
  if (said <= deps_.clock->Now() + kClockAheadMax) return;
  report->set_time_unix_ns(0);
  ++stats_.reports_clock_ahead;
  base::LogEvery("pipeline.clock_ahead", base::LogLevel::kWarning, "pipeline",
                 absl::StrCat("run '", stream.run(), "', rank ", stream.rank(),
                              ": reports are taken without their time, ", absl::FormatTime(said),
                              ", which is more than a day ahead of this machine's clock"));
}

// While all runs together hold too much, each may hold an equal share.
bool Pipeline::HasRoom(const RunState& run) const {
  return stats_.open_bytes < options_.open_bytes_max ||
         run.open_bytes() < options_.open_bytes_max / std::max<size_t>(1, open_runs_);
}

void Pipeline::Handle(GoodbyeWork work) {
  const RankStream& stream = *work.stream;
  const auto run = runs_.find(stream.run());
  if (run == runs_.end() || !streams_.contains(stream.id())) return;
  run->second->Goodbye(stream.attempt(), stream.rank(), stream.client_instance(), work.outcome,
                       &changes_.batch);
  acks_[stream.id()];  // an Ack with nothing new tells that the Goodbye is committed
  touched_.insert(stream.run());
  changed_.insert(stream.run());
}

void Pipeline::Handle(EndWork work) {
  const RankStream& stream = *work.stream;
  if (streams_.erase(stream.id()) == 0) return;  // not admitted, or its run was deleted
  stats_.streams = streams_.size();
  const auto run = runs_.find(stream.run());
  if (run == runs_.end()) return;
  run->second->StreamEnded(stream.attempt(), stream.rank(), stream.id());
  changed_.insert(stream.run());
}

void Pipeline::Handle(CallWork work) {
  absl::Status status = work.call();
  if (!status.ok()) {
    work.done(status);
  } else {
    done_.push_back(std::move(work.done));
  }
}

void Pipeline::Settle(absl::Time now) {
  const bool all = now >= settle_all_at_;
  if (all) {
    settle_all_at_ = now + kTick;
    for (const auto& [name, run] : runs_) touched_.insert(name);
  }
  SettleRuns(now);
  if (!all) return;
  uint64_t steps = 0;
  uint64_t bytes = 0;
  uint64_t silent = 0;
  size_t open_runs = 0;
  for (auto& [name, run] : runs_) {
    run->Tick(now, &changes_);
    steps += run->open_steps();
    bytes += run->open_bytes();
    silent += run->silent_ranks();
    open_runs += run->open_bytes() > 0 ? 1 : 0;
  }
  open_runs_ = open_runs;
  stats_.open_steps = steps;
  stats_.open_bytes = bytes;
  stats_.silent_ranks = silent;
}

// Each run in its turn, beginning behind the one that was last in the round before. Runs that are
// not reached, or have more to close, wait for the next round.
void Pipeline::SettleRuns(absl::Time now) {
  const Budget budget = BudgetFor(options_.round_time_max / 2);
  const std::set<std::string> due = std::exchange(touched_, {});
  auto next = due.upper_bound(settled_last_);
  for (size_t i = 0; i < due.size(); ++i, ++next) {
    if (next == due.end()) next = due.begin();
    if (i > 0 && budget.SpentBy(changes_)) {
      touched_.insert(*next);
      continue;
    }
    settled_last_ = *next;
    if (!runs_.at(*next)->Settle(now, budget, &changes_)) touched_.insert(*next);
  }
}

void Pipeline::Commit() {
  if (!changes_.batch.empty()) {
    const absl::Time now = deps_.clock->Steady();
    if (!stats_.store_writable && now < retry_at_ && !inbox_.closed()) return;
    const absl::Status status = deps_.store->Write(changes_.batch);
    if (!status.ok()) {
      ++stats_.commit_failures;
      stats_.store_writable = false;
      retry_at_ = now + options_.retry_interval;
      base::LogEvery(
          "pipeline.commit", base::LogLevel::kError, "pipeline",
          absl::StrCat("the store cannot be written; nothing is acknowledged until it can: ",
                       status.message()));
      for (auto& done : done_) done(status);
      done_.clear();
      return;
    }
    if (!stats_.store_writable.exchange(true)) {
      base::LogInfo("pipeline", "the store can be written again");
    }
    ++stats_.commits;
    stats_.commit_latency.Observe(deps_.clock->Steady() - batch_started_);
  }
  AfterCommit();
}

absl::Status Pipeline::CommitAll() {
  Commit();
  if (changes_.batch.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the store cannot be written (see the daemon's log); try again when it can");
}

void Pipeline::AfterCommit() {
  // The batch is taken first: a callback may not see it half told.
  const Changes committed = std::exchange(changes_, {});
  PublishRuns();
  for (const model::ClosedStep& step : committed.batch.steps) deps_.listener->OnStep(step);
  for (const model::AlertRow& alert : committed.alerts) {
    deps_.listener->OnAlert(alert, /*restored=*/false);
  }
  for (const auto& [id, ack] : std::exchange(acks_, {})) {
    if (const auto stream = streams_.find(id); stream != streams_.end()) {
      stream->second->SendAck(ack);
      ++stats_.acks_sent;
    }
  }
  for (auto& done : std::exchange(done_, {})) done(absl::OkStatus());
  if (const absl::Time now = deps_.clock->Steady(); now >= forget_at_) {
    forget_at_ = now + kForgetInterval;
    for (auto& [name, run] : runs_) run->ForgetIdleAttempts();
  }
}

void Pipeline::PublishRuns() {
  for (const std::string& name : std::exchange(changed_, {})) {
    const auto run = runs_.find(name);
    std::vector<AttemptStatus> attempts;
    if (run != runs_.end()) attempts = run->second->status();
    if (!attempts.empty()) deps_.listener->OnRun(name, attempts);
    base::MutexLock lock(&published_mutex_);
    if (attempts.empty()) {
      published_.erase(name);
    } else {
      published_[name] = std::move(attempts);
    }
  }
}

absl::StatusOr<RunState*> Pipeline::FindRun(const std::string& run, bool create) {
  if (const auto known = runs_.find(run); known != runs_.end()) return known->second.get();
  FORESHOCK_RETURN_IF_ERROR(MakeRoomForRun());
  const absl::Status stored = deps_.store->Run(run).status();
  if (stored.ok()) {
    FORESHOCK_RETURN_IF_ERROR(LoadRun(run));
  } else if (absl::IsNotFound(stored) && create) {
    runs_[run] = std::make_unique<RunState>(run, options_.run, rules_, deps_.store, &stats_);
  } else {
    return stored;
  }
  return runs_.at(run).get();
}

// Runs without a rank or an open step may leave memory; they are read back when needed, so all of
// them must be in the store by then.
absl::Status Pipeline::MakeRoomForRun() {
  if (runs_.size() < options_.runs_max) return absl::OkStatus();
  const auto idle = std::find_if(runs_.begin(), runs_.end(), [this](const auto& entry) {
    return !entry.second->connected() && entry.second->open_steps() == 0 &&
           !touched_.contains(entry.first);
  });
  if (idle == runs_.end()) {
    return absl::ResourceExhaustedError(absl::StrCat("the limit of ", options_.runs_max,
                                                     " live runs is reached (limits.runs_max)"));
  }
  FORESHOCK_RETURN_IF_ERROR(
      base::Annotate(CommitAll(), absl::StrCat("run '", idle->first, "' cannot leave memory")));
  changed_.insert(idle->first);
  runs_.erase(idle);
  return absl::OkStatus();
}

// ---- The syncer's thread.

void Pipeline::SyncLoop() {
  uint64_t synced_commits = 0;
  while (true) {
    {
      base::MutexLock lock(&threads_mutex_);
      if (!stop_syncing_) threads_changed_.WaitFor(&threads_mutex_, options_.sync_interval);
      if (stop_syncing_) break;
    }
    const uint64_t commits = stats_.commits;
    if (commits == synced_commits) continue;
    const absl::Status status = deps_.store->Sync();
    if (status.ok()) {
      synced_commits = commits;
    } else {
      ++stats_.sync_failures;
      base::LogEvery("pipeline.sync", base::LogLevel::kError, "pipeline",
                     absl::StrCat("the write-ahead log cannot be synced: ", status.message()));
    }
  }
  const absl::Status last = deps_.store->Sync();
  if (!last.ok()) base::LogError("pipeline", absl::StrCat("last sync: ", last.message()));
}

}  // namespace foreshock::pipeline
