#include "daemon/ingest/stream.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/field.h"
#include "daemon/ingest/validate.h"

namespace foreshock::ingest {
namespace {

v1::Rejection ToRejection(uint64_t seq, const absl::Status& status) {
  v1::Rejection rejection;
  rejection.set_seq(seq);
  rejection.set_code(static_cast<uint32_t>(status.code()));
  rejection.set_reason(std::string(status.message()));
  return rejection;
}

}  // namespace

absl::Status StreamState::CheckOpen(const char* what) const {
  if (state_ == State::kOpen) return absl::OkStatus();
  if (state_ == State::kNew) {
    return absl::FailedPreconditionError(
        absl::StrCat("a ", what, " came first; the first message of a stream is a Hello"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a ", what, " came after the Goodbye, which is the last message of a stream"));
}

absl::Status StreamState::OnHello(const v1::Hello& hello) {
  if (state_ != State::kNew) {
    return absl::InvalidArgumentError("a second Hello came; a stream has one, its first message");
  }
  FORESHOCK_RETURN_IF_ERROR(ValidateHello(hello));
  model_ = hello.model();
  state_ = State::kOpen;
  return absl::OkStatus();
}

absl::StatusOr<StreamState::Checked> StreamState::OnReport(v1::Report* report) {
  FORESHOCK_RETURN_IF_ERROR(CheckOpen("Report"));
  if (report->seq() <= last_seq_) {
    return Field("report.seq")
        .Refuse(report->seq(),
                absl::StrCat("more than ", last_seq_,
                             ", the one before: seq grows within a stream, gaps are legal"));
  }
  if (report->seq() - last_seq_ > kSeqGapMax) {
    return Field("report.seq")
        .Refuse(report->seq(), absl::StrCat("at most 2^40 more than ", last_seq_,
                                            ", the one before: so many reports are never lost"));
  }
  last_seq_ = report->seq();
  IngestStats::Add(stats_->reports);
  IngestStats::Add(stats_->summaries, report->summaries_size());
  Checked checked;
  if (const absl::Status status = ValidateReport(*report, limits_); !status.ok()) {
    IngestStats::Add(stats_->reports_rejected);
    checked.report_stands = false;
    checked.rejections.push_back(ToRejection(report->seq(), status));
    return checked;
  }
  for (int i = 0; i < report->summaries_size(); ++i) {
    const SummaryContext context{
        .model = model_, .step = report->step(), .index = static_cast<size_t>(i)};
    const absl::Status status = ValidateSummary(report->summaries(i), context, &names_);
    if (status.ok()) continue;
    IngestStats::Add(stats_->summaries_rejected[static_cast<size_t>(status.code())]);
    checked.rejections.push_back(ToRejection(report->seq(), status));
    checked.rejections.back().set_summary_index(i);
    report->mutable_summaries(i)->Clear();
  }
  return checked;
}

absl::Status StreamState::OnGoodbye(const v1::Goodbye& goodbye) {
  FORESHOCK_RETURN_IF_ERROR(CheckOpen("Goodbye"));
  FORESHOCK_RETURN_IF_ERROR(ValidateGoodbye(goodbye));
  state_ = State::kClosed;
  return absl::OkStatus();
}

bool IsHeavy(const v1::Report& report) {
  for (const v1::Summary& summary : report.summaries()) {
    if (summary.has_qk_factors() || summary.has_qk_gram()) return true;
  }
  return false;
}

}  // namespace foreshock::ingest
