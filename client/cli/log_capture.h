// Rows of a log become the capture that one rank would have sent: a report for each step, a new
// launch where the step goes back.
//
//   LogCapture capture("exp-42", &names, writer.get(), &notes);
//   RETURN_IF_ERROR(capture.Add(row));
//   RETURN_IF_ERROR(capture.Finish());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "client/cli/log_reader.h"
#include "client/cli/scalar_names.h"
#include "daemon/capture/writer.h"

namespace foreshock::cli {

struct LogAttempt {
  int64_t first_step = 0;
  int64_t last_step = 0;
  uint64_t steps = 0;
  std::string where{};  // of the first row
};

struct LogTotals {
  std::vector<LogAttempt> attempts;
  uint64_t steps = 0;
  uint64_t skipped_steps = 0;  // reports whose optimizer step was skipped
  uint64_t replaced = 0;       // values that a later row of the same step gave again
  uint64_t nonfinite = 0;      // values
  std::string first_nonfinite;
};

// Thread-compatible. Memory: one step.
class LogCapture {
 public:
  // The pointers outlive this.
  LogCapture(std::string run, ScalarNames* names, capture::CaptureWriter* out, LogNotes* notes)
      : run_(std::move(run)), names_(*names), out_(*out), notes_(*notes) {}

  // Rows of one step are one report; the last value of a scalar counts. Errors: what the writer
  // says; InvalidArgument after kAttemptsMax attempts.
  absl::Status Add(const LogRow& row);
  // Writes the last step and the goodbye. The writer is committed by its owner.
  absl::Status Finish();

  const LogTotals& totals() const { return totals_; }

  static constexpr size_t kAttemptsMax = 1000;

 private:
  absl::Status BeginAttempt(const LogRow& row);
  void AddValues(const LogRow& row);
  absl::Status FlushStep();
  absl::Status Write(v1::PushRequest message);

  const std::string run_;
  ScalarNames& names_;
  capture::CaptureWriter& out_;
  LogNotes& notes_;
  LogTotals totals_;
  std::optional<v1::Report> step_;               // the step being put together
  absl::flat_hash_map<uint32_t, int> index_of_;  // scalar id -> its place in step_
  absl::flat_hash_set<uint32_t> declared_;       // in this attempt
  uint64_t seq_ = 0;
};

}  // namespace foreshock::cli
