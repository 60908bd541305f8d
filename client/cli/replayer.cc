#include "client/cli/replayer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {

Replayer::Replayer(v1::IngestService::Stub& ingest, ReplayOptions options)
    : ingest_(ingest), options_(std::move(options)) {}

absl::Status Replayer::Send(v1::CaptureRecord record) {
  v1::PushRequest& message = *record.mutable_message();
  if (message.has_hello()) return Greet(record.stream(), std::move(*message.mutable_hello()));
  const auto found = streams_.find(record.stream());
  if (found == streams_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream ", record.stream(), " of the capture has no Hello before its data"));
  }
  RankStream& rank = *found->second;
  if (message.has_goodbye()) return rank.Send(message.goodbye());
  const int64_t step = message.report().step();
  WaitForTurn(message.report().time_unix_ns());
  FORESHOCK_RETURN_IF_ERROR(rank.AwaitAcks(options_.unacked_reports_max, options_.timeout));
  FORESHOCK_ASSIGN_OR_RETURN(const bool sent, rank.Send(std::move(*message.mutable_report())));
  ++(sent ? totals_.reports : totals_.skipped);
  totals_.last_step = step;
  return absl::OkStatus();
}

absl::Status Replayer::Greet(uint32_t stream, v1::Hello hello) {
  if (hello.launch_id() != launch_id_) FORESHOCK_RETURN_IF_ERROR(CloseAll());
  launch_id_ = hello.launch_id();
  if (!options_.run.empty()) hello.set_run(options_.run);
  totals_.run = hello.run();
  FORESHOCK_ASSIGN_OR_RETURN(streams_[stream], RankStream::Open(ingest_, hello, options_.timeout));
  totals_.attempts.insert(streams_[stream]->attempt());
  ++totals_.streams;
  return absl::OkStatus();
}

void Replayer::WaitForTurn(int64_t time_unix_ns) {
  if (options_.speed <= 0 || time_unix_ns == 0) return;
  if (first_unix_ns_ == 0) {
    first_unix_ns_ = time_unix_ns;
    started_ = base::SteadyNow();
  }
  const absl::Duration recorded = absl::Nanoseconds(time_unix_ns - first_unix_ns_);
  const absl::Duration wait = started_ + recorded / options_.speed - base::SteadyNow();
  if (wait > absl::ZeroDuration()) absl::SleepFor(wait);
}

absl::Status Replayer::CloseAll() {
  absl::Status first_error;
  for (auto& [stream, rank] : streams_) {
    first_error.Update(rank->Close(options_.timeout));
    const RankStream::Counts counts = rank->counts();
    totals_.duplicates += counts.duplicates;
    totals_.rejected += counts.rejected;
    totals_.reports_rejected += counts.reports_rejected;
    for (const std::string& reason : counts.reasons) {
      if (totals_.reasons.size() < RankStream::kReasonsMax) totals_.reasons.push_back(reason);
    }
  }
  streams_.clear();
  return first_error;
}

absl::Status Replayer::Finish() { return CloseAll(); }

}  // namespace foreshock::cli
