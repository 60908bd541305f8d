// Progress on stderr: a bar that is drawn over on a terminal, a plain line now and then elsewhere.
//
//   Progress progress("replay", total_reports);
//   progress.Update(done, "step 420");
//   progress.Print("text on stdout that must not tear the bar\n");
//   progress.Finish();
#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "client/cli/terminal.h"
#include "daemon/base/mutex.h"

namespace foreshock::cli {

// Thread-safe.
class Progress {
 public:
  Progress(std::string label, uint64_t total);
  ~Progress() { Finish(); }

  void Update(uint64_t done, const std::string& note);
  // Writes `text` to stdout between two drawings of the bar.
  void Print(const std::string& text);
  // Removes the bar.
  void Finish();

 private:
  void DrawLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ClearLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string label_;
  const uint64_t total_;
  const Terminal terminal_;
  base::Mutex mutex_;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string note_ ABSL_GUARDED_BY(mutex_);
  bool shown_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_draw_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time next_line_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::cli
