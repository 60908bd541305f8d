// The events of one run: what its ranks sent with a step, and what was declared from outside for a
// step that has not closed. Each comes into force once, however often it is said.
//
//   DeclaredEvents events("exp-42");
//   events.Declare(attempt, event, now, &batch);       // an operator
//   events.TakeInForce(settled, /*newest=*/true, &closed, &batch);
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/merge/open_steps.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/step.h"
#include "daemon/store/store.h"

namespace foreshock::pipeline {

// Of one run. More are dropped, with a line in the log, or refused where somebody declares them.
inline constexpr size_t kEventsMax = 100'000;

// The same for an event that is declared again: the store has one row of it, too.
uint64_t EventIdentity(const model::EventRow& row);

// Only on the writer's thread.
class DeclaredEvents {
 public:
  explicit DeclaredEvents(std::string run) : run_(std::move(run)) {}

  // A stored row, after a restart.
  void Restore(const model::EventRow& row);

  // Holds from the first step that closes at or behind the one that it names. ResourceExhausted
  // when the run has kEventsMax.
  absl::Status Declare(uint32_t attempt, const v1::Event& event, absl::Time now,
                       store::StoreBatch* batch);

  // Puts the events that come into force with the step into `closed`, whose row is set. A step that
  // changed after it had closed only lists what its ranks sent.
  // `newest`: of the attempt that is judged; only that one takes what was declared from outside.
  void TakeInForce(const merge::SettledStep& step, bool newest, model::ClosedStep* closed,
                   store::StoreBatch* batch);

 private:
  // Whether it may be, once more or for the first time.
  bool HasRoomFor(uint64_t identity) const {
    return known_.size() < kEventsMax || known_.contains(identity);
  }
  void Enforce(model::EventRow row, model::ClosedStep* closed, store::StoreBatch* batch) const;

  const std::string run_;
  std::vector<model::EventRow> waiting_;  // from outside, for steps that have not closed
  absl::flat_hash_set<uint64_t> known_;   // identities of all that wait or came into force
};

}  // namespace foreshock::pipeline
