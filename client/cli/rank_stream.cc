#include "client/cli/rank_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/connection.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {

absl::StatusOr<std::unique_ptr<RankStream>> RankStream::Open(v1::IngestService::Stub& ingest,
                                                             const v1::Hello& hello,
                                                             absl::Duration timeout) {
  std::unique_ptr<RankStream> rank(new RankStream(hello));
  rank->stream_ = ingest.Push(&rank->context_);
  rank->reader_ = std::thread([stream = rank.get()] { stream->ReadAnswers(); });
  v1::PushRequest request;
  *request.mutable_hello() = hello;
  FORESHOCK_RETURN_IF_ERROR(rank->Write(request));
  FORESHOCK_RETURN_IF_ERROR(rank->AwaitHelloAck(timeout));
  return rank;
}

RankStream::~RankStream() {
  context_.TryCancel();
  if (reader_.joinable()) reader_.join();
}

absl::Status RankStream::AwaitHelloAck(absl::Duration timeout) {
  const absl::Time deadline = base::SteadyNow() + timeout;
  base::MutexLock lock(&mutex_);
  while (!greeted_ && !ended_) {
    if (!changed_.WaitFor(&mutex_, deadline - base::SteadyNow()) && base::SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "rank ", rank_, " said Hello and had no answer in ", absl::FormatDuration(timeout)));
    }
  }
  return greeted_ ? absl::OkStatus() : FailureLocked();
}

absl::StatusOr<bool> RankStream::Send(v1::Report report) {
  if (report.seq() <= hello_ack_.last_committed_seq()) {
    skipped_names_.Note(report);
    return false;
  }
  skipped_names_.MoveInto(&report);
  const uint64_t seq = report.seq();
  v1::PushRequest request;
  *request.mutable_report() = std::move(report);
  FORESHOCK_RETURN_IF_ERROR(Write(request));
  sent_seq_ = seq;
  return true;
}

absl::Status RankStream::Send(const v1::Goodbye& goodbye) {
  v1::PushRequest request;
  *request.mutable_goodbye() = goodbye;
  return Write(request);
}

absl::Status RankStream::Write(const v1::PushRequest& request) {
  if (stream_->Write(request)) return absl::OkStatus();
  // A failed write says nothing; the reason comes with the final status, on the reader's side.
  base::MutexLock lock(&mutex_);
  while (!ended_) changed_.Wait(&mutex_);
  return FailureLocked();
}

absl::Status RankStream::AwaitAcks(uint64_t reports_max, absl::Duration timeout) {
  absl::Time deadline = base::SteadyNow() + timeout;
  base::MutexLock lock(&mutex_);
  uint64_t acked = counts_.acked_seq;
  while (!ended_ && sent_seq_ > counts_.acked_seq + reports_max) {
    if (!changed_.WaitFor(&mutex_, deadline - base::SteadyNow()) && base::SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", rank_, ": the daemon acknowledged report ", counts_.acked_seq,
                       " of ", sent_seq_, " and nothing more in ", absl::FormatDuration(timeout)));
    }
    if (counts_.acked_seq > acked) {  // it moves: wait on
      acked = counts_.acked_seq;
      deadline = base::SteadyNow() + timeout;
    }
  }
  return sent_seq_ > counts_.acked_seq + reports_max ? FailureLocked() : absl::OkStatus();
}

absl::Status RankStream::Close(absl::Duration timeout) {
  if (!half_closed_) {
    half_closed_ = true;
    stream_->WritesDone();
  }
  FORESHOCK_RETURN_IF_ERROR(AwaitAcks(0, timeout));
  const absl::Time deadline = base::SteadyNow() + timeout;
  base::MutexLock lock(&mutex_);
  while (!ended_) {
    if (!changed_.WaitFor(&mutex_, deadline - base::SteadyNow()) && base::SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank_,
                                                      ": the daemon did not end the stream in ",
                                                      absl::FormatDuration(timeout)));
    }
  }
  return ended_->ok() ? absl::OkStatus() : FailureLocked();
}

void RankStream::ReadAnswers() {
  v1::PushResponse response;
  while (stream_->Read(&response)) {
    base::MutexLock lock(&mutex_);
    if (response.has_hello_ack()) {
      hello_ack_ = std::move(*response.mutable_hello_ack());
      counts_.acked_seq = hello_ack_.last_committed_seq();
      greeted_ = true;
    } else if (response.has_ack()) {
      Take(response.ack());
    }
    changed_.NotifyAll();
  }
  const absl::Status status = FromGrpc(stream_->Finish());
  base::MutexLock lock(&mutex_);
  ended_ = status;
  changed_.NotifyAll();
}

void RankStream::Take(const v1::Ack& ack) {
  counts_.acked_seq = std::max<uint64_t>(counts_.acked_seq, ack.seq());
  counts_.duplicates += ack.duplicates();
  for (const v1::Rejection& rejection : ack.rejections()) {
    ++counts_.rejected;
    if (!rejection.has_summary_index()) ++counts_.reports_rejected;
    if (counts_.reasons.size() < kReasonsMax) {
      counts_.reasons.push_back(absl::StrCat(
          "rank ", rank_, ", report ", rejection.seq(),
          rejection.has_summary_index() ? absl::StrCat(", summary ", rejection.summary_index())
                                        : "",
          ": ", rejection.reason()));
    }
  }
}

RankStream::Counts RankStream::counts() const {
  base::MutexLock lock(&mutex_);
  return counts_;
}

absl::Status RankStream::FailureLocked() const {
  if (ended_->ok()) {
    return absl::UnavailableError(
        absl::StrCat("rank ", rank_, ": the daemon ended the stream with ",
                     sent_seq_ - counts_.acked_seq, " reports not acknowledged"));
  }
  return absl::Status(ended_->code(), absl::StrCat("rank ", rank_, ": ", ended_->message()));
}

}  // namespace foreshock::cli
