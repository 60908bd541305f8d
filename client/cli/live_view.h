// What the daemon makes of a run while it is being pushed: a row of headline indicators every so
// many steps, and each alert where it falls between the rows. Everything comes from the daemon's
// query service; nothing is computed here but the mean over the heads of a layer, as rules see it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/cli/connection.h"
#include "client/cli/progress.h"
#include "daemon/base/mutex.h"

namespace foreshock::cli {

class LiveView {
 public:
  struct Options {
    std::string run;
    int64_t every_steps = 100;  // rows at multiples of it
  };

  // Starts a thread that asks the daemon and prints through `out`.
  LiveView(Connection& daemon, Options options, Progress& out);
  ~LiveView();

  // Everything is sent: shows the rest up to `last_step`, waiting at most `timeout` for the daemon
  // to close it, and stops.
  void Finish(int64_t last_step, absl::Duration timeout);

 private:
  struct SeenAlert {
    v1::Alert alert;
    bool fired_shown = false;
    bool resolved_shown = false;
    std::string severity_shown;
  };

  void Run();
  // One look at the daemon: prints what is new; returns the newest closed step.
  std::optional<int64_t> Poll();
  void PrintRow(int64_t step);
  void PrintHeader();
  void PrintAlertsUpTo(int64_t step);
  void TakeAlerts();
  std::string StepLine(const SeenAlert& seen) const;
  std::string Cell(size_t column, int64_t step);

  Connection& daemon_;
  const Options options_;
  Progress& out_;
  const Terminal terminal_;
  std::vector<size_t> columns_;  // of the table in live_view.cc: those the run has data for
  int64_t next_row_;
  uint32_t attempt_ = 0;
  std::map<std::string, SeenAlert> alerts_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<int64_t> newest_step_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace foreshock::cli
