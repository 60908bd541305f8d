#include "daemon/app/cleanups.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/mutex.h"
#include "daemon/base/status_macros.h"

namespace foreshock::app {
namespace {

// What a part may take beyond its time before it counts as hung.
constexpr absl::Duration kGrace = absl::Milliseconds(500);
// What every part gets, even when the deadline has passed.
constexpr absl::Duration kAtLeast = absl::Milliseconds(100);

// Outlives Run where the cleanup hangs.
struct Running {
  base::Mutex mutex;
  base::CondVar ended;
  std::optional<absl::Status> result ABSL_GUARDED_BY(mutex);
};

}  // namespace

void Cleanups::Add(std::string name, Limit limit, Cleanup cleanup) {
  parts_.push_back({std::move(name), limit, std::move(cleanup)});
}

absl::Status Cleanups::Run(absl::Duration deadline) {
  const absl::Time until = base::SteadyNow() + deadline;
  absl::Status first_error;
  while (!parts_.empty()) {
    Named part = std::move(parts_.back());
    parts_.pop_back();
    const std::string name = part.name;
    const absl::Duration left = std::max(absl::ZeroDuration(), until - base::SteadyNow());
    const absl::Status status = base::Annotate(RunOne(std::move(part), left), name);
    if (!status.ok()) base::LogWarning("app", absl::StrCat("stopping: ", status.message()));
    first_error.Update(status);
  }
  return first_error;
}

absl::Status Cleanups::RunOne(Named part, absl::Duration left) {
  const absl::Duration allowed = std::min(part.limit.at_most, left * part.limit.share);
  const absl::Time until = base::SteadyNow() + std::max(kAtLeast, std::min(left, allowed + kGrace));
  const auto running = std::make_shared<Running>();
  std::thread thread([running, allowed, cleanup = std::move(part.cleanup)] {
    absl::Status status = cleanup(allowed);
    base::MutexLock lock(&running->mutex);
    running->result = std::move(status);
    running->ended.NotifyAll();
  });
  {
    base::MutexLock lock(&running->mutex);
    for (absl::Duration rest = until - base::SteadyNow();
         !running->result.has_value() && rest > absl::ZeroDuration();
         rest = until - base::SteadyNow()) {
      running->ended.WaitFor(&running->mutex, std::min(rest, absl::Hours(1)));
    }
    if (!running->result.has_value()) {
      hung_ = true;
      thread.detach();
      return absl::DeadlineExceededError(absl::StrCat(
          "did not end within ", absl::FormatDuration(absl::Trunc(allowed, absl::Milliseconds(1))),
          " and is left behind"));
    }
  }
  thread.join();
  return *running->result;
}

}  // namespace foreshock::app
