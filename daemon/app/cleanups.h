// How the daemon's parts end, at a stop and after a start that failed half way: each part adds what
// ends it as soon as it exists, and they run in reverse.
//
//   Cleanups cleanups;
//   cleanups.Add("pipeline", {.share = 0.8}, [&](absl::Duration allowed) { return Stop(allowed);
//   }); cleanups.Add("gRPC", {.at_most = absl::Seconds(2)}, ...); const absl::Status ended =
//   cleanups.Run(absl::Seconds(10));   // gRPC, then pipeline
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace foreshock::app {

// From one thread.
class Cleanups {
 public:
  // What a part may take of the time that is left when its turn comes.
  struct Limit {
    double share = 0.5;
    absl::Duration at_most = absl::InfiniteDuration();
  };
  // Told how long it may take. Its error becomes that of Run.
  using Cleanup = std::function<absl::Status(absl::Duration allowed)>;

  void Add(std::string name, Limit limit, Cleanup cleanup);

  // Runs them all once, the newest first, and returns the first error, with the part's name. A
  // part that fails keeps no other from its turn. One that does not return in time is left behind
  // on its thread (DeadlineExceeded): what it uses must stay alive, see hung().
  absl::Status Run(absl::Duration deadline);

  // Whether a cleanup was left behind.
  bool hung() const { return hung_; }

 private:
  struct Named {
    std::string name;
    Limit limit;
    Cleanup cleanup;
  };

  absl::Status RunOne(Named part, absl::Duration left);

  std::vector<Named> parts_;
  bool hung_ = false;
};

}  // namespace foreshock::app
