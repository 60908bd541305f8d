// Whether a step that a rank names can be true. A step that is implausibly far ahead of the run is
// that rank's error: it does not move the run. When most ranks go there, the run has jumped.
//
//   StepGate gate({.ahead_max = 10'000});
//   if (!gate.Admit(rank, step, live_ranks)) Reject(gate.reach());
//   gate.Closed(step);                   // the run has come to it
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"

namespace foreshock::merge {

// Thread-compatible.
class StepGate {
 public:
  struct Options {
    // How many steps ahead of the run a rank may be. A run whose steps have numbers that are 100
    // apart counts as many hundreds. What ranks have buffered while the daemon was away must fit.
    int64_t ahead_max = 10'000;
  };

  explicit StepGate(Options options) : options_(options) {}

  // False: the report is not to be taken. `live_ranks`: how many ranks are heard, this one
  // included. More than half of them move the run, each by two reports in a row that go up by no
  // more than the jump itself: a single wild number confirms nothing. The first report of all is
  // believed until a step closes.
  bool Admit(uint32_t rank, int64_t step, size_t live_ranks);

  // The rank said goodbye: what it claimed does not count any more.
  void Forget(uint32_t rank);

  // A step has closed; in step order. True: the run is behind what its first report said, so open
  // steps beyond reach() are not to be believed.
  bool Closed(int64_t step);

  // Someone who knows says that the run comes to this step.
  void Expect(int64_t step);

  // After a restart: the first and the last step that had closed, and at least how many had.
  void Restore(int64_t first, int64_t last, int64_t count);

  // Where the run is, and the farthest step that is admitted.
  int64_t at() const { return at_; }
  int64_t reach() const;

 private:
  // What a rank says that is not believed yet.
  struct Claim {
    int64_t step = 0;
    bool confirmed = false;
  };

  int64_t stride() const;

  const Options options_;
  bool begun_ = false;    // a report was admitted, or a step had closed
  bool assumed_ = false;  // at_ is what the first report said
  int64_t at_ = 0;
  int64_t expected_ = 0;
  std::optional<int64_t> first_closed_;
  int64_t last_closed_ = 0;
  int64_t closed_ = 0;  // steps
  absl::flat_hash_map<uint32_t, Claim> claims_;
  size_t confirmed_ = 0;  // claims
};

}  // namespace foreshock::merge
