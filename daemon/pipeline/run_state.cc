#include "daemon/pipeline/run_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/stable_hash.h"
#include "daemon/base/status_macros.h"
#include "daemon/indicators/finish.h"
#include "google/protobuf/util/message_differencer.h"

namespace foreshock {
namespace {

bool SameMessage(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

bool Ended(v1::RunState state) {
  return state == v1::RUN_STATE_FINISHED || state == v1::RUN_STATE_FAILED ||
         state == v1::RUN_STATE_PREEMPTED;
}

}  // namespace

uint64_t EventIdentity(const model::EventRow& row) {
  const v1::Event& event = row.event();
  return StableHash(absl::StrCat(row.attempt(), "\n", event.step(), "\n", event.kind(), "\n",
                                 event.name().size(), "\n", event.name(), event.detail()));
}

RunState::RunState(std::string run, Options options, std::shared_ptr<const RuleSet> rules,
                   PipelineStats* stats)
    : run_(std::move(run)), options_(options), stats_(stats), rules_(std::move(rules)) {
  row_.set_name(run_);
}

bool RunState::IsNewest(const Attempt& attempt) const {
  return attempt.row.number() == attempts_.rbegin()->first;
}

// The attempt of the hello's launch: 0 if it is a new launch.
absl::StatusOr<uint32_t> RunState::FindAttempt(const v1::Hello& hello) const {
  for (const auto& [number, attempt] : attempts_) {
    if (attempt.row.launch_id() != hello.launch_id()) continue;
    if (attempt.row.world_size() != hello.world_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Hello of run '", run_, "', rank ", hello.rank(), ": world_size is ",
                       hello.world_size(), ", but other ranks of launch '", hello.launch_id(),
                       "' said ", attempt.row.world_size(), "; a launch has one world size"));
    }
    if (hello.has_model() && attempt.model.ByteSizeLong() != 0 &&
        !SameMessage(hello.model(), attempt.model)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Hello of run '", run_, "', rank ", hello.rank(), ": model shape {",
          hello.model().ShortDebugString(), "} differs from {", attempt.model.ShortDebugString(),
          "} of other ranks of launch '", hello.launch_id(), "'; give the whole model's shape"));
    }
    return number;
  }
  return 0u;
}

RunState::Attempt& RunState::BeginAttempt(const v1::Hello& hello, absl::Time now,
                                          Changes* changes) {
  StoreBatch* batch = &changes->batch;
  const uint32_t number = attempts_.empty() ? 1 : attempts_.rbegin()->first + 1;
  if (number > 1) {
    // Nothing closes an attempt that was killed but its successor.
    Attempt& previous = attempts_.rbegin()->second;
    CloseSteps(&previous, previous.open_steps->Retire(), now, changes);
  }
  Attempt& attempt = attempts_[number];
  attempt.row.set_number(number);
  attempt.row.set_launch_id(hello.launch_id());
  attempt.row.set_world_size(hello.world_size());
  attempt.row.set_started_unix_ns(absl::ToUnixNanos(now));
  if (hello.has_parent_attempt()) {
    attempt.row.set_parent(hello.parent_attempt());
  } else if (number > 1) {
    attempt.row.set_parent(number - 1);
  }
  if (hello.has_resume_step()) attempt.row.set_resume_step(hello.resume_step());
  attempt.model = hello.has_model() ? hello.model() : row_.model();
  attempt.open_steps = std::make_unique<OpenSteps>(options_.open_steps, hello.world_size());

  // Those of the newest launch that has any: collected over launches they would have no limit.
  if (!hello.labels().empty()) *row_.mutable_labels() = hello.labels();
  if (hello.has_model()) *row_.mutable_model() = hello.model();
  if (!known_) {
    row_.set_created_unix_ns(absl::ToUnixNanos(now));
    known_ = true;
  }
  batch->runs.push_back(row_);
  batch->attempts.push_back({run_, attempt.row});

  if (evaluator_ == nullptr || number == 1) {
    evaluator_ = std::make_unique<Evaluator>(rules_, run_, attempt.model);
  }
  BeginJudging(number);
  // Steps that the new attempt runs again are read back as its own, so this is the last chance to
  // know what the rules saw in the old ones.
  if (number > 1) RememberRules(batch);
  return attempt;
}

void RunState::BeginJudging(uint32_t number) {
  const Attempt& attempt = attempts_.at(number);
  AttemptStart start{.number = number};
  if (attempt.row.has_resume_step()) start.resume_step = attempt.row.resume_step();
  for (const auto& [other, before] : attempts_) {
    if (other >= number || !before.row.has_last_step()) continue;
    start.reached = std::max(start.reached.value_or(-1), before.row.last_step());
  }
  start.model_layers = row_.model().layers();
  evaluator_->BeginAttempt(start);
  DeclarePlans(attempt);
}

void RunState::DeclarePlans(const Attempt& attempt) {
  for (const auto& [key, rank] : attempt.ranks) {
    evaluator_->DeclarePlan(rank.rank(), attempt.row.world_size(),
                            std::vector<v1::PlanEntry>(rank.plan().begin(), rank.plan().end()));
  }
  // Of a rank for which several processes spoke, the one that has not said goodbye counts.
  for (const auto& process : attempt.ranks) {
    const uint32_t rank = process.first.first;
    const bool gone = std::all_of(attempt.ranks.begin(), attempt.ranks.end(), [&](const auto& it) {
      return it.first.first != rank || it.second.outcome() != v1::OUTCOME_UNSPECIFIED;
    });
    if (gone) evaluator_->RankGone(rank);
  }
}

absl::StatusOr<RunState::Admitted> RunState::Open(const v1::Hello& hello, StreamId stream,
                                                  absl::Time now, Changes* changes) {
  StoreBatch* batch = &changes->batch;
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t number, FindAttempt(hello));
  Attempt& attempt = number == 0 ? BeginAttempt(hello, now, changes) : attempts_.at(number);
  const std::pair key(hello.rank(), hello.client_instance());

  Admitted admitted{.attempt = attempt.row.number()};
  if (auto other = attempt.connected.find(hello.rank()); other != attempt.connected.end()) {
    if (other->second.first != hello.client_instance()) {
      return absl::AlreadyExistsError(
          absl::StrCat("run '", run_, "', launch '", hello.launch_id(), "': rank ", hello.rank(),
                       " is connected from another process (client_instance '", other->second.first,
                       "'); one process speaks for a rank"));
    }
    admitted.replaced = other->second.second;
  }
  for (const auto& [other, rank] : attempt.ranks) {
    if (other.first != hello.rank()) continue;
    if (!SameMessage(rank.coordinates(), hello.coordinates())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "run '", run_, "', launch '", hello.launch_id(), "': rank ", hello.rank(),
          " changed its coordinates from {", rank.coordinates().ShortDebugString(), "} to {",
          hello.coordinates().ShortDebugString(), "}; they are fixed for a launch"));
    }
  }

  model::RankRow& rank = attempt.ranks[key];
  rank.set_rank(hello.rank());
  rank.set_client_instance(hello.client_instance());
  *rank.mutable_coordinates() = hello.coordinates();
  *rank.mutable_plan() = hello.plan();
  rank.set_outcome(v1::OUTCOME_UNSPECIFIED);
  heard_ = true;
  if (IsNewest(attempt)) {
    evaluator_->DeclarePlan(hello.rank(), hello.world_size(),
                            std::vector<v1::PlanEntry>(hello.plan().begin(), hello.plan().end()));
  }
  attempt.open_steps->RankReturns(hello.rank());
  if (Ended(attempt.row.state())) {
    attempt.row.set_state(v1::RUN_STATE_UNSPECIFIED);
    batch->attempts.push_back({run_, attempt.row});
  }
  batch->ranks.push_back({run_, admitted.attempt, rank});
  attempt.connected[hello.rank()] = {hello.client_instance(), stream};

  std::shared_ptr<SharedSnapshots>& snapshots = attempt.snapshots[key];
  if (snapshots == nullptr)
    snapshots = std::make_shared<SharedSnapshots>(options_.snapshots, stats_);
  admitted.snapshots = snapshots;
  admitted.last_committed_seq = rank.committed_seq();
  return admitted;
}

RunState::Taken RunState::Add(uint32_t number, const model::ShardReport& report, absl::Time now,
                              StoreBatch* batch) {
  Attempt& attempt = attempts_.at(number);
  model::RankRow& rank = attempt.ranks.at({report.rank(), report.client_instance()});
  if (report.seq() <= rank.committed_seq()) {
    ++stats_->reports_duplicate;
    return Taken::kDuplicate;
  }
  rank.set_committed_seq(report.seq());
  if (report.last_of_step()) {
    rank.set_last_step(rank.has_last_step() ? std::max(rank.last_step(), report.step())
                                            : report.step());
  }
  batch->ranks.push_back({run_, number, rank});
  ++stats_->reports_committed;

  switch (attempt.open_steps->Add(report, now)) {
    case OpenSteps::Outcome::kTooLate:
      ++stats_->reports_too_late;
      return Taken::kTooLate;
    case OpenSteps::Outcome::kLate:
      ++stats_->reports_late;
      break;
    case OpenSteps::Outcome::kOpen:
      break;
  }
  batch->reports.push_back({run_, number, report});
  return Taken::kNew;
}

void RunState::Goodbye(uint32_t number, uint32_t rank, const std::string& client_instance,
                       v1::Outcome outcome, StoreBatch* batch) {
  Attempt& attempt = attempts_.at(number);
  model::RankRow& row = attempt.ranks.at({rank, client_instance});
  row.set_outcome(outcome);
  batch->ranks.push_back({run_, number, row});
  attempt.connected.erase(rank);
  attempt.snapshots.erase({rank, client_instance});
  attempt.open_steps->RankGone(rank);
  if (IsNewest(attempt)) evaluator_->RankGone(rank);
  UpdateOutcome(&attempt, batch);
}

// An attempt has ended when every process that spoke for it has said how.
void RunState::UpdateOutcome(Attempt* attempt, StoreBatch* batch) {
  v1::RunState state = v1::RUN_STATE_FINISHED;
  std::map<uint32_t, v1::Outcome> by_rank;
  for (const auto& [key, rank] : attempt->ranks) {
    by_rank[key.first] = std::max(by_rank[key.first], rank.outcome());
  }
  for (const auto& [rank, outcome] : by_rank) {
    if (outcome == v1::OUTCOME_UNSPECIFIED) return;
    if (outcome == v1::OUTCOME_FAILED) state = v1::RUN_STATE_FAILED;
    if (outcome == v1::OUTCOME_PREEMPTED && state == v1::RUN_STATE_FINISHED) {
      state = v1::RUN_STATE_PREEMPTED;
    }
  }
  attempt->row.set_state(state);
  batch->attempts.push_back({run_, attempt->row});
}

void RunState::StreamEnded(uint32_t number, uint32_t rank, StreamId stream) {
  Attempt& attempt = attempts_.at(number);
  auto it = attempt.connected.find(rank);
  if (it != attempt.connected.end() && it->second.second == stream) attempt.connected.erase(it);
}

uint32_t RunState::Declare(const v1::Event& event, absl::Time now, StoreBatch* batch) {
  const uint32_t number = attempts_.rbegin()->first;
  model::EventRow row;
  row.set_attempt(number);
  *row.mutable_event() = event;
  row.set_time_unix_ns(absl::ToUnixNanos(now));
  row.set_waits(true);
  if (!events_.insert(EventIdentity(row)).second) return number;
  declared_.push_back(row);
  batch->events.push_back({run_, std::move(row)});
  return number;
}

void RunState::SetPinned(bool pinned, StoreBatch* batch) {
  row_.set_pinned(pinned);
  batch->runs.push_back(row_);
}

void RunState::ReplaceRules(std::shared_ptr<const RuleSet> rules, absl::Time now,
                            Changes* changes) {
  rules_ = std::move(rules);
  if (evaluator_ == nullptr) return;
  for (model::AlertRow& row : evaluator_->ReplaceRules(rules_)) {
    AddAlert(std::move(row), now, changes);
  }
  // What was remembered is of the old ones. Not at once: all runs are in this batch.
  steps_to_remember_ = std::max(options_.remember_steps, remembered_kib_);
}

void RunState::Settle(absl::Time now, Changes* changes) {
  for (auto& [number, attempt] : attempts_) {
    CloseSteps(&attempt, attempt.open_steps->TakeSettled(now), now, changes);
    const std::optional<int64_t> settled = attempt.open_steps->settled_through();
    if (settled.has_value() && settled != attempt.settled_written) {
      changes->batch.settled_steps.push_back({run_, number, *settled});
      attempt.settled_written = settled;
    }
  }
  // Weeks may pass before an ended run goes on, and then the whole daemon waits for its reading.
  if (steps_to_remember_ > 0 && Ended(attempts_.rbegin()->second.row.state())) {
    RememberRules(&changes->batch);
  }
}

void RunState::Tick(absl::Time now, Changes* changes) {
  if (evaluator_ == nullptr) return;
  const Attempt& newest = attempts_.rbegin()->second;
  const Evaluator::Clock clock = {.now_unix_ns = absl::ToUnixNanos(now),
                                  .life = Ended(newest.row.state()) ? Life::kEnded
                                          : heard_                  ? Life::kLive
                                                                    : Life::kUnheard,
                                  .hindmost = [&newest] { return newest.open_steps->hindmost(); }};
  for (model::AlertRow& row : evaluator_->Tick(clock)) AddAlert(std::move(row), now, changes);
}

// What ranks sent with the step, and what was declared to hold from it on or before; each event
// once. What was declared is for the newest attempt, which is judged.
void RunState::TakeEvents(const SettledStep& step, bool newest, ClosedStep* closed,
                          StoreBatch* batch) {
  if (step.row.late) {
    closed->events.assign(step.merged->events().begin(), step.merged->events().end());
    return;
  }
  const auto take = [&](model::EventRow row) {
    closed->events.push_back(row.event());
    row.set_in_force_step(closed->row.step);
    row.set_in_force_attempt(closed->row.attempt);
    row.set_waits(false);
    batch->events.push_back({run_, std::move(row)});
  };
  for (const v1::Event& event : step.merged->events()) {
    model::EventRow row;
    row.set_attempt(closed->row.attempt);
    *row.mutable_event() = event;
    row.set_time_unix_ns(closed->row.time_unix_ns);
    const uint64_t identity = EventIdentity(row);
    const size_t waited = std::erase_if(declared_, [identity](const model::EventRow& other) {
      return EventIdentity(other) == identity;
    });
    if (events_.insert(identity).second || waited > 0) take(std::move(row));
  }
  if (!newest) return;
  std::erase_if(declared_, [&](const model::EventRow& row) {
    if (row.event().step() > closed->row.step) return false;
    take(row);
    return true;
  });
}

void RunState::CloseSteps(Attempt* attempt, const std::vector<SettledStep>& settled, absl::Time now,
                          Changes* changes) {
  StoreBatch* batch = &changes->batch;
  for (const SettledStep& step : settled) {
    ClosedStep closed;
    closed.run = run_;
    closed.row = step.row;
    closed.row.attempt = attempt->row.number();
    TakeEvents(step, IsNewest(*attempt), &closed, batch);
    Finish(step.merged->train(), attempt->model, /*eval=*/false, &attempt->history, &closed);
    if (step.merged->has_eval()) {
      Finish(step.merged->eval(), attempt->model, /*eval=*/true, &attempt->history, &closed);
    }

    if (!step.row.late) {
      if (!attempt->row.has_first_step()) attempt->row.set_first_step(step.row.step);
      attempt->row.set_last_step(step.row.step);
      batch->attempts.push_back({run_, attempt->row});
      ++stats_->steps_closed;
      if (step.row.partial) ++stats_->steps_partial;
      AddCoactivation(step.merged->train(), attempt, batch);
      // Only the newest attempt is judged: an older one that still speaks is a leftover.
      if (IsNewest(*attempt)) {
        if (step.row.ranks < attempt->row.world_size()) {
          evaluator_->SetSilentRanks(attempt->open_steps->silent_ranks());
        }
        JudgeStep(closed, now, changes);
        if (++steps_to_remember_ >= std::max(options_.remember_steps, remembered_kib_)) {
          RememberRules(batch);
        }
      }
    }
    stats_->points_written += closed.samples.size();
    batch->steps.push_back(std::move(closed));
  }
}

void RunState::AddCoactivation(const model::StepShards& merged, Attempt* attempt,
                               StoreBatch* batch) {
  for (const model::CoactivationShard& shard : merged.coactivation()) {
    model::CoactivationRow& row = attempt->coactivation[shard.layer()];
    if (row.pair_counts_size() != shard.pair_counts_size()) row.Clear();  // the first, or E changed
    const bool first = row.tokens() == 0;
    row.set_layer(shard.layer());
    row.set_experts(shard.experts());
    row.set_tokens(row.tokens() + shard.tokens());
    row.mutable_pair_counts()->Resize(shard.pair_counts_size(), 0);
    for (int i = 0; i < shard.pair_counts_size(); ++i) {
      row.set_pair_counts(i, row.pair_counts(i) + shard.pair_counts(i));
    }
    // Gate mass is known of the sum only if every part of it was.
    if (first) row.mutable_gate_mass()->Resize(shard.gate_mass_size(), 0);
    if (row.gate_mass_size() != shard.gate_mass_size()) row.clear_gate_mass();
    for (int e = 0; e < row.gate_mass_size(); ++e) {
      row.set_gate_mass(e, row.gate_mass(e) + shard.gate_mass(e));
    }
    batch->coactivation.push_back({run_, attempt->row.number(), row});
  }
}

void RunState::JudgeStep(const ClosedStep& closed, absl::Time now, Changes* changes) {
  stats_->rules_evaluated += rules_->infos().size();
  for (model::AlertRow& row : evaluator_->Evaluate(closed)) {
    AddAlert(std::move(row), now, changes);
  }
}

// The evaluator's row says how the alert stands; what was told of it goes on from the row before.
void RunState::AddAlert(model::AlertRow row, absl::Time now, Changes* changes) {
  if (const model::AlertRow* before = FindAlert(row.alert().id()); before != nullptr) {
    *row.mutable_deliveries() = before->deliveries();
    if (before->alert().has_acknowledgement()) {
      *row.mutable_alert()->mutable_acknowledgement() = before->alert().acknowledgement();
    }
    row.set_fired_unix_ns(before->fired_unix_ns());
  }
  if (row.fired_unix_ns() == 0) row.set_fired_unix_ns(absl::ToUnixNanos(now));
  if (row.alert().state() == v1::ALERT_STATE_RESOLVED) {
    row.set_ended_unix_ns(absl::ToUnixNanos(now));
  }
  row.set_undelivered(true);
  changes->alerts.push_back(row);
  PutAlert(std::move(row), changes);
}

const model::AlertRow* RunState::FindAlert(const std::string& id) const {
  const auto found = alerts_.find(id);
  return found == alerts_.end() ? nullptr : &found->second;
}

void RunState::PutAlert(model::AlertRow row, Changes* changes) {
  const bool over = row.alert().state() == v1::ALERT_STATE_RESOLVED && !row.undelivered();
  if (over) {
    alerts_.erase(row.alert().id());
  } else {
    alerts_[row.alert().id()] = row;
  }
  changes->batch.alerts.push_back({run_, std::move(row)});
}

std::vector<AttemptStatus> RunState::status() const {
  std::vector<AttemptStatus> result;
  for (const auto& [number, attempt] : attempts_) {
    AttemptStatus status{.attempt = number, .world_size = attempt.row.world_size()};
    status.ranks_connected = static_cast<uint32_t>(attempt.connected.size());
    status.silent_ranks = attempt.open_steps->silent_ranks();
    if (attempt.row.has_resume_step()) status.resume_step = attempt.row.resume_step();
    if (attempt.row.has_last_step()) status.last_step = attempt.row.last_step();
    status.state = Ended(attempt.row.state())   ? attempt.row.state()
                   : status.ranks_connected > 0 ? v1::RUN_STATE_LIVE
                                                : v1::RUN_STATE_SILENT;
    result.push_back(std::move(status));
  }
  return result;
}

bool RunState::connected() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const auto& entry) { return !entry.second.connected.empty(); });
}

size_t RunState::open_steps() const {
  size_t sum = 0;
  for (const auto& [number, attempt] : attempts_) sum += attempt.open_steps->open_steps();
  return sum;
}

size_t RunState::open_bytes() const {
  size_t sum = 0;
  for (const auto& [number, attempt] : attempts_) sum += attempt.open_steps->bytes();
  return sum;
}

}  // namespace foreshock
