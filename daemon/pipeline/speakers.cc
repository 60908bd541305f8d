#include "daemon/pipeline/speakers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"

namespace foreshock::pipeline {

absl::StatusOr<Admitted> Speakers::Greet(const v1::Hello& hello, StreamId stream,
                                         store::StoreBatch* batch) {
  const auto known = ranks_.find(hello.rank());
  Admitted admitted{.attempt = attempt_};
  if (known != ranks_.end()) {
    const Rank& before = known->second;
    if (before.stream != 0) {
      if (before.connection->first != hello.client_instance()) {
        return absl::AlreadyExistsError(absl::StrCat(
            "rank ", hello.rank(), " is connected from another process (client_instance '",
            before.connection->first, "'); one process speaks for a rank"));
      }
      admitted.replaced = before.stream;
    }
    const v1::Coordinates& coordinates = before.processes.begin()->second.row.coordinates();
    if (!google::protobuf::util::MessageDifferencer::Equals(coordinates, hello.coordinates())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", hello.rank(), " changed its coordinates from {", coordinates.ShortDebugString(),
          "} to {", hello.coordinates().ShortDebugString(), "}; they are fixed for a launch"));
    }
  }

  const auto [place, fresh] = ranks_.try_emplace(hello.rank());
  Rank& rank = place->second;
  if (fresh) ++ranks_by_outcome_[v1::OUTCOME_UNSPECIFIED];
  SetOutcome(v1::OUTCOME_UNSPECIFIED, &rank);
  if (rank.stream == 0) ++connected_;
  rank.connection = rank.processes.try_emplace(hello.client_instance()).first;
  rank.stream = stream;
  ++streams_;

  Process& process = rank.connection->second;
  process.row.set_rank(hello.rank());
  process.row.set_client_instance(hello.client_instance());
  *process.row.mutable_coordinates() = hello.coordinates();
  *process.row.mutable_plan() = hello.plan();
  process.row.set_outcome(v1::OUTCOME_UNSPECIFIED);
  batch->ranks.push_back({run_, attempt_, process.row});
  if (process.snapshots == nullptr) {
    process.snapshots = std::make_shared<SharedSnapshots>(snapshots_, stats_);
  }
  admitted.snapshots = process.snapshots;
  admitted.last_committed_seq = process.row.committed_seq();
  return admitted;
}

bool Speakers::Knows(const model::ShardReport& report) const {
  const Rank& rank = ranks_.at(report.rank());
  return report.seq() <= rank.processes.at(report.client_instance()).row.committed_seq();
}

void Speakers::Mark(const model::ShardReport& report, bool step_holds, store::StoreBatch* batch) {
  model::RankRow& row = ranks_.at(report.rank()).processes.at(report.client_instance()).row;
  row.set_committed_seq(report.seq());
  if (step_holds && report.last_of_step()) {
    row.set_last_step(row.has_last_step() ? std::max(row.last_step(), report.step())
                                          : report.step());
  }
  batch->ranks.push_back({run_, attempt_, row});
}

void Speakers::Goodbye(uint32_t number, const std::string& client_instance, v1::Outcome outcome,
                       store::StoreBatch* batch) {
  Rank& rank = ranks_.at(number);
  Process& process = rank.processes.at(client_instance);
  process.row.set_outcome(outcome);
  process.snapshots = nullptr;
  batch->ranks.push_back({run_, attempt_, process.row});
  SetOutcome(outcome, &rank);
  Disconnect(&rank);
}

void Speakers::StreamEnded(uint32_t number, StreamId stream) {
  --streams_;
  Rank& rank = ranks_.at(number);
  if (rank.stream == stream) Disconnect(&rank);
}

// Which of several processes of a rank spoke last is not stored. One that has not said goodbye and
// still lives says Hello to this daemon soon; until then the rank counts as gone.
void Speakers::Restore(model::RankRow row) {
  const auto [place, fresh] = ranks_.try_emplace(row.rank());
  if (fresh) ++ranks_by_outcome_[v1::OUTCOME_UNSPECIFIED];
  SetOutcome(std::max(place->second.outcome, row.outcome()), &place->second);
  place->second.processes[row.client_instance()].row = std::move(row);
}

std::optional<v1::RunState> Speakers::outcome() const {
  if (ranks_by_outcome_[v1::OUTCOME_UNSPECIFIED] > 0) return std::nullopt;
  if (ranks_by_outcome_[v1::OUTCOME_FAILED] > 0) return v1::RUN_STATE_FAILED;
  if (ranks_by_outcome_[v1::OUTCOME_PREEMPTED] > 0) return v1::RUN_STATE_PREEMPTED;
  return v1::RUN_STATE_FINISHED;
}

void Speakers::SetOutcome(v1::Outcome outcome, Rank* rank) {
  --ranks_by_outcome_[rank->outcome];
  rank->outcome = outcome;
  ++ranks_by_outcome_[outcome];
}

void Speakers::Disconnect(Rank* rank) {
  if (std::exchange(rank->stream, 0) != 0) --connected_;
}

}  // namespace foreshock::pipeline
