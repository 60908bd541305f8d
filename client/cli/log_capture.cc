#include "client/cli/log_capture.h"

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {

namespace {

// The same for the same row, so that a second replay of one log adds nothing to the daemon's run;
// another log that is replayed under the name of the first is another launch.
std::string Fingerprint(const LogRow& row) {
  std::string text = absl::StrCat(row.step, " ", row.time_unix_ns);
  for (const LogValue& value : row.values) {
    absl::StrAppend(&text, " ", value.column, absl::StrFormat("=%.17g", value.value));
  }
  return absl::StrFormat("%016x", std::hash<std::string>()(text));
}

}  // namespace

absl::Status LogCapture::Add(const LogRow& row) {
  const bool going_on = !totals_.attempts.empty() && row.step >= totals_.attempts.back().last_step;
  bool any = false;
  for (const LogValue& value : row.values) any |= names_.Find(value.column, &notes_) != nullptr;
  if (!any) return absl::OkStatus();
  // Steps that this row stands for; the first one of an attempt does not say.
  int64_t covered = 1;
  if (!going_on) {
    FORESHOCK_RETURN_IF_ERROR(BeginAttempt(row));
  } else if (step_ && step_->step() != row.step) {
    covered = row.step - step_->step();
    FORESHOCK_RETURN_IF_ERROR(FlushStep());
  }
  if (!step_) {
    step_.emplace();
    step_->set_step(row.step);
    step_->set_phase(v1::PHASE_TRAIN);
    step_->set_last_of_step(true);
    step_->add_summaries()->mutable_scalars();
  }
  if (row.time_unix_ns != 0) step_->set_time_unix_ns(row.time_unix_ns);
  // With a row for every 100 steps, one of them skipped does not excuse a NaN in the row.
  if (row.skipped_steps > 0 && row.skipped_steps >= static_cast<double>(covered)) {
    step_->set_skipped(true);
  }
  AddValues(row);
  totals_.attempts.back().last_step = row.step;
  return absl::OkStatus();
}

absl::Status LogCapture::BeginAttempt(const LogRow& row) {
  FORESHOCK_RETURN_IF_ERROR(FlushStep());
  if (totals_.attempts.size() >= kAttemptsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.where, ": the step goes back for the ", kAttemptsMax,
                     "th time; allowed is one run: is it the right --step-key?"));
  }
  const bool resumed = !totals_.attempts.empty();
  totals_.attempts.push_back({.first_step = row.step, .last_step = row.step, .where = row.where});
  declared_.clear();
  seq_ = 0;
  v1::PushRequest message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_run(run_);
  hello.set_launch_id(absl::StrCat("import-", totals_.attempts.size(), "-", Fingerprint(row)));
  hello.set_client_instance(absl::StrCat(hello.launch_id(), "-rank-0"));
  hello.set_world_size(1);
  hello.set_client_version("foreshock-import/" FORESHOCK_VERSION);
  if (resumed) hello.set_resume_step(row.step);
  return Write(std::move(message));
}

void LogCapture::AddValues(const LogRow& row) {
  v1::ScalarBatch& scalars = *step_->mutable_summaries(0)->mutable_scalars();
  for (const LogValue& value : row.values) {
    const v1::ScalarDeclaration* scalar = names_.Find(value.column, &notes_);
    if (scalar == nullptr) continue;
    if (!std::isfinite(value.value) && totals_.nonfinite++ == 0) {
      totals_.first_nonfinite =
          absl::StrCat(row.where, ": ", scalar->name(), " is ", value.value, " at step ", row.step);
    }
    const auto [place, is_new] = index_of_.emplace(scalar->id(), scalars.ids_size());
    if (!is_new) {
      ++totals_.replaced;
      scalars.set_values(place->second, value.value);
      continue;
    }
    scalars.add_ids(scalar->id());
    scalars.add_values(value.value);
    if (declared_.insert(scalar->id()).second) *scalars.add_declare() = *scalar;
  }
}

absl::Status LogCapture::FlushStep() {
  if (!step_) return absl::OkStatus();
  ++totals_.steps;
  ++totals_.attempts.back().steps;
  totals_.skipped_steps += step_->skipped() ? 1 : 0;
  step_->set_seq(++seq_);
  v1::PushRequest message;
  *message.mutable_report() = *std::exchange(step_, std::nullopt);
  index_of_.clear();
  return Write(std::move(message));
}

absl::Status LogCapture::Finish() {
  FORESHOCK_RETURN_IF_ERROR(FlushStep());
  if (totals_.attempts.empty()) return absl::OkStatus();
  v1::PushRequest message;
  message.mutable_goodbye()->set_outcome(v1::OUTCOME_FINISHED);
  message.mutable_goodbye()->set_detail("the end of the imported log");
  return Write(std::move(message));
}

absl::Status LogCapture::Write(v1::PushRequest message) {
  v1::CaptureRecord record;
  record.set_stream(static_cast<uint32_t>(totals_.attempts.size() - 1));
  *record.mutable_message() = std::move(message);
  return out_.Write(record);
}

}  // namespace foreshock::cli
