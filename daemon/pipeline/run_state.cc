#include "daemon/pipeline/run_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"

namespace foreshock::pipeline {

RunState::RunState(std::string run, const Options& options,
                   std::shared_ptr<const rules::RuleSet> rules, const store::Store* store,
                   PipelineStats* stats)
    : run_(std::move(run)),
      options_(options),
      store_(store),
      stats_(stats),
      judging_(run_, options.remember_steps, std::move(rules), stats),
      alerts_(run_),
      events_(run_) {
  row_.set_name(run_);
}

absl::StatusOr<std::vector<model::AlertRow>> RunState::Load(absl::Time now) {
  FORESHOCK_ASSIGN_OR_RETURN(row_, store_->Run(run_));
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::AttemptRow> attempts, store_->Attempts(run_));
  for (model::AttemptRow& row : attempts) {
    const uint32_t number = row.number();
    Attempt& attempt =
        attempts_.try_emplace(number, run_, std::move(row), row_.model(), options_, stats_)
            .first->second;
    FORESHOCK_RETURN_IF_ERROR(attempt.Load(*store_, now));
  }
  std::vector<model::AlertRow> unresolved;
  if (attempts_.empty()) return unresolved;

  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::EventRow> events, store_->Events(run_));
  for (const model::EventRow& row : events) events_.Restore(row);
  FORESHOCK_RETURN_IF_ERROR(judging_.Load(*store_, &attempts_));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AlertRow> alerts, store_->Alerts(run_));
  for (const model::AlertRow& row : alerts) {
    alerts_.Restore(row);
    if (row.alert().state() == v1::ALERT_STATE_RESOLVED) continue;
    judging_.Restore(row);
    unresolved.push_back(row);
  }
  return unresolved;
}

absl::StatusOr<Attempt*> RunState::FindAttempt(const v1::Hello& hello, absl::Time now) {
  for (auto& [number, attempt] : attempts_) {
    if (attempt.row.launch_id() != hello.launch_id()) continue;
    FORESHOCK_RETURN_IF_ERROR(base::Annotate(
        attempt.Check(hello), absl::StrCat("Hello of run '", run_, "', rank ", hello.rank())));
    if (!attempt.loaded) FORESHOCK_RETURN_IF_ERROR(attempt.Load(*store_, now));
    return &attempt;
  }
  return nullptr;
}

model::AttemptRow RunState::NextAttempt(const v1::Hello& hello, absl::Time now) const {
  const uint32_t number = attempts_.empty() ? 1 : attempts_.rbegin()->first + 1;
  model::AttemptRow row;
  row.set_number(number);
  row.set_launch_id(hello.launch_id());
  row.set_world_size(hello.world_size());
  row.set_started_unix_ns(absl::ToUnixNanos(now));
  if (hello.has_parent_attempt()) {
    row.set_parent(hello.parent_attempt());
  } else if (number > 1) {
    row.set_parent(number - 1);
  }
  if (hello.has_resume_step()) row.set_resume_step(hello.resume_step());
  return row;
}

Attempt& RunState::BeginAttempt(const v1::Hello& hello, absl::Time now, Changes* changes) {
  if (!attempts_.empty()) {
    // An attempt that was killed is closed by its successor only.
    Attempt& previous = newest();
    for (const merge::SettledStep& step : previous.open_steps.Retire()) {
      CloseStep(step, &previous, now, changes);
    }
  }
  // Labels are those of the newest launch that has any: added up over launches they would have no
  // limit.
  if (!hello.labels().empty()) *row_.mutable_labels() = hello.labels();
  if (hello.has_model()) *row_.mutable_model() = hello.model();
  if (row_.created_unix_ns() == 0) row_.set_created_unix_ns(absl::ToUnixNanos(now));
  changes->batch.runs.push_back(row_);

  model::AttemptRow row = NextAttempt(hello, now);
  const uint32_t number = row.number();
  changes->batch.attempts.push_back({run_, row});
  Attempt& attempt =
      attempts_.try_emplace(number, run_, std::move(row), row_.model(), options_, stats_)
          .first->second;
  judging_.BeginAttempt(attempts_, number);
  // A restart reads a step that the new attempt runs again as the new attempt's. So what the rules
  // saw in the old one is stored now.
  if (number > 1) judging_.Remember(&attempt, &changes->batch);
  return attempt;
}

absl::StatusOr<Admitted> RunState::Open(const v1::Hello& hello, StreamId stream, absl::Time now,
                                        Changes* changes) {
  FORESHOCK_ASSIGN_OR_RETURN(Attempt * attempt, FindAttempt(hello, now));
  if (attempt == nullptr) attempt = &BeginAttempt(hello, now, changes);
  absl::StatusOr<Admitted> admitted = attempt->speakers.Greet(hello, stream, &changes->batch);
  if (!admitted.ok()) {
    return base::Annotate(admitted.status(),
                          absl::StrCat("run '", run_, "', launch '", hello.launch_id(), "'"));
  }
  heard_ = true;
  if (IsNewest(*attempt)) judging_.RankSpeaks(hello);
  attempt->open_steps.RankReturns(hello.rank());
  if (attempt->ended()) attempt->SetState(v1::RUN_STATE_UNSPECIFIED, &changes->batch);
  return admitted;
}

RunState::Taken RunState::Add(uint32_t number, const model::ShardReport& report, absl::Time now,
                              bool room, store::StoreBatch* batch) {
  Attempt& attempt = attempts_.at(number);
  if (attempt.speakers.Knows(report)) {
    ++stats_->reports_duplicate;
    return {.duplicate = true};
  }
  using Outcome = merge::OpenSteps::Outcome;
  const size_t before = attempt.open_steps.bytes();
  const Outcome outcome = attempt.open_steps.Add(report, now, room);
  stats_->open_bytes += attempt.open_steps.bytes() - before;
  attempt.speakers.Mark(report, /*step_holds=*/outcome != Outcome::kTooFar, batch);
  ++stats_->reports_committed;
  switch (outcome) {
    case Outcome::kTooLate:
      ++stats_->reports_too_late;
      return {.refused = absl::OutOfRangeError(absl::StrCat(
                  "step ", report.step(),
                  " closed too long ago to be merged again; a process that goes back in steps must "
                  "say Hello with a new launch_id"))};
    case Outcome::kTooFar:
      ++stats_->reports_too_far;
      return {.refused = TooFar(attempt, report)};
    case Outcome::kNoRoom:
      ++stats_->reports_no_room;
      return {.refused = absl::ResourceExhaustedError(absl::StrCat(
                  "no room for the statistics of step ", report.step(), ": rank ", report.rank(),
                  " or its run holds as much of open steps as it may (merge.rank_bytes_max, "
                  "merge.all_bytes_max)"))};
    case Outcome::kLate:
      ++stats_->reports_late;
      break;
    case Outcome::kOpen:
      break;
  }
  batch->reports.push_back({run_, number, report});
  return {};
}

absl::Status RunState::TooFar(const Attempt& attempt, const model::ShardReport& report) const {
  const merge::StepGate& gate = attempt.open_steps.gate();
  const std::string reason = absl::StrCat(
      "step ", report.step(), " is too far ahead of the run, which is at step ", gate.at(),
      "; steps up to ", gate.reach(),
      " are taken (merge.steps_ahead_max), farther ones when most ranks go there or an event is "
      "declared for them");
  base::LogEvery("pipeline.too_far", base::LogLevel::kWarning, "pipeline",
                 absl::StrCat("run '", run_, "', rank ", report.rank(), ": ", reason));
  return absl::OutOfRangeError(reason);
}

void RunState::Goodbye(uint32_t number, uint32_t rank, const std::string& client_instance,
                       v1::Outcome outcome, store::StoreBatch* batch) {
  Attempt& attempt = attempts_.at(number);
  attempt.speakers.Goodbye(rank, client_instance, outcome, batch);
  attempt.open_steps.RankGone(rank);
  if (IsNewest(attempt)) judging_.RankGone(rank);
  if (const auto state = attempt.speakers.outcome(); state.has_value()) {
    attempt.SetState(*state, batch);
  }
}

void RunState::StreamEnded(uint32_t number, uint32_t rank, StreamId stream) {
  attempts_.at(number).speakers.StreamEnded(rank, stream);
}

absl::StatusOr<uint32_t> RunState::Declare(const v1::Event& event, absl::Time now,
                                           store::StoreBatch* batch) {
  if (attempts_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("run '", run_, "' has no attempt to which an event could belong"));
  }
  FORESHOCK_RETURN_IF_ERROR(events_.Declare(newest().number(), event, now, batch));
  newest().open_steps.ExpectStep(event.step());
  return newest().number();
}

void RunState::SetPinned(bool pinned, store::StoreBatch* batch) {
  row_.set_pinned(pinned);
  batch->runs.push_back(row_);
}

void RunState::ReplaceRules(std::shared_ptr<const rules::RuleSet> rules, absl::Time now,
                            Changes* changes) {
  Attempt* const attempt = attempts_.empty() ? nullptr : &newest();
  TakeAlerts(judging_.ReplaceRules(std::move(rules), attempt, &changes->batch), now, changes);
}

bool RunState::CloseDue(uint32_t number, absl::Time now, const Budget& budget, Changes* changes) {
  return CloseDue(&attempts_.at(number), now, budget, changes);
}

bool RunState::CloseDue(Attempt* attempt, absl::Time now, const Budget& budget, Changes* changes) {
  while (true) {
    const std::vector<merge::SettledStep> closed = attempt->open_steps.CloseDue(now, 1);
    if (closed.empty()) return true;
    CloseStep(closed[0], attempt, now, changes);
    if (budget.SpentBy(*changes)) return false;
  }
}

bool RunState::Settle(absl::Time now, const Budget& budget, Changes* changes) {
  bool all = true;
  for (auto& [number, attempt] : attempts_) {
    if (!attempt.open_steps.has_work()) continue;
    all = CloseDue(&attempt, now, budget, changes) && all;
    for (const merge::SettledStep& step : attempt.open_steps.TakeChanged()) {
      CloseStep(step, &attempt, now, changes);
    }
    attempt.ForgetSettled(&changes->batch);
  }
  // An ended run may go on weeks later, and the whole daemon waits while it is read back.
  if (!attempts_.empty() && newest().ended() && judging_.has_news()) {
    judging_.Remember(&newest(), &changes->batch);
  }
  return all;
}

void RunState::ForgetIdleAttempts() {
  if (store_ == nullptr || attempts_.size() < 2) return;
  for (auto it = attempts_.begin(); it != std::prev(attempts_.end()); ++it) {
    Attempt& attempt = it->second;
    if (!attempt.loaded || !attempt.idle()) continue;
    const model::AttemptRow row = attempt.row;
    const v1::ModelShape model = attempt.model;
    it = attempts_.erase(it);
    it = attempts_.try_emplace(it, row.number(), run_, row, model, options_, stats_);
    it->second.loaded = false;
  }
}

void RunState::Tick(absl::Time now, Changes* changes) {
  if (attempts_.empty()) return;
  const rules::Life life = newest().ended() ? rules::Life::kEnded
                           : heard_         ? rules::Life::kLive
                                            : rules::Life::kUnheard;
  TakeAlerts(judging_.Tick({.now_unix_ns = absl::ToUnixNanos(now),
                            .life = life,
                            .hindmost = [this] { return newest().open_steps.hindmost(); }}),
             now, changes);
}

void RunState::CloseStep(const merge::SettledStep& step, Attempt* attempt, absl::Time now,
                         Changes* changes) {
  model::ClosedStep closed;
  closed.run = run_;
  closed.row = step.row;
  closed.row.attempt = attempt->number();
  events_.TakeInForce(step, IsNewest(*attempt), &closed, &changes->batch);
  attempt->Compute(step, &closed, &changes->batch);
  if (!step.row.late) {
    ++stats_->steps_closed;
    if (step.row.partial) ++stats_->steps_partial;
    // An older attempt that still speaks is a leftover and is not judged.
    if (IsNewest(*attempt)) {
      TakeAlerts(judging_.Judge(closed, attempt, &changes->batch), now, changes);
    }
    changes->batch.attempts.push_back({run_, attempt->row});
  }
  stats_->points_written += closed.samples.size();
  changes->points += closed.samples.size();
  changes->batch.steps.push_back(std::move(closed));
}

void RunState::TakeAlerts(std::vector<model::AlertRow> rows, absl::Time now, Changes* changes) {
  for (model::AlertRow& row : rows) alerts_.Judge(std::move(row), now, changes);
}

std::vector<AttemptStatus> RunState::status() const {
  std::vector<AttemptStatus> result;
  for (const auto& [number, attempt] : attempts_) {
    AttemptStatus status{.attempt = number,
                         .state = attempt.state(),
                         .world_size = attempt.row.world_size(),
                         .ranks_connected = static_cast<uint32_t>(attempt.speakers.connected())};
    if (attempt.row.has_resume_step()) status.resume_step = attempt.row.resume_step();
    if (attempt.row.has_last_step()) status.last_step = attempt.row.last_step();
    result.push_back(std::move(status));
  }
  return result;
}

bool RunState::connected() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const auto& entry) { return entry.second.speakers.connected() > 0; });
}

std::vector<uint32_t> RunState::NewestSilentRanks() const {
  return attempts_.rbegin()->second.open_steps.silent_ranks();
}

size_t RunState::silent_ranks() const {
  size_t sum = 0;
  for (const auto& [number, attempt] : attempts_) sum += attempt.open_steps.silent_count();
  return sum;
}

size_t RunState::ranks_held() const {
  size_t sum = 0;
  for (const auto& [number, attempt] : attempts_) sum += attempt.speakers.ranks().size();
  return sum;
}

size_t RunState::open_steps() const {
  size_t sum = 0;
  for (const auto& [number, attempt] : attempts_) sum += attempt.open_steps.open_steps();
  return sum;
}

size_t RunState::open_bytes() const {
  size_t sum = 0;
  for (const auto& [number, attempt] : attempts_) sum += attempt.open_steps.bytes();
  return sum;
}

}  // namespace foreshock::pipeline
