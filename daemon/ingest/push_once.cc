#include "daemon/ingest/push_once.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"

namespace foreshock::ingest {

PushOnceReactor::PushOnceReactor(ServiceCore* core, security::Caller caller,
                                 const v1::PushOnceRequest* request, v1::PushOnceResponse* response)
    : core_(core),
      caller_(std::move(caller)),
      request_(request),
      response_(response),
      shared_(std::make_shared<Shared>()),
      state_(core->options.limits, core->stats) {
  if (const absl::Status status = core_->CheckMayPush(caller_); !status.ok()) {
    Finish(core_->StatusOf(status));
    return;
  }
  IngestStats::Add(core_->stats->bytes, request_->ByteSizeLong());
  const bool taken = core_->once.TryRun([this] { Finish(core_->StatusOf(Serve())); });
  if (!taken) {
    core_->stats->Refuse(Refusal::kOverload);
    Finish(core_->StatusOf(absl::ResourceExhaustedError(
        absl::StrCat(core_->options.once_tasks_max, " PushOnce calls are waiting, the limit"))));
  }
}

void PushOnceReactor::OnCancel() {
  base::MutexLock lock(&shared_->mutex);
  shared_->ended.Update(absl::CancelledError("the caller gave up"));
  shared_->changed.NotifyAll();
}

absl::Status PushOnceReactor::Serve() {
  FORESHOCK_RETURN_IF_ERROR(core_->CheckNotDraining());
  if (const absl::Status status = state_.OnHello(request_->hello()); !status.ok()) {
    core_->stats->Refuse(Refusal::kBadHello);
    return status;
  }
  FORESHOCK_ASSIGN_OR_RETURN(const security::Client client,
                             core_->AdmitPush(caller_, request_->hello().run()));
  FORESHOCK_ASSIGN_OR_RETURN(Admission::Stream place,
                             core_->admission.Enter(request_->hello().run(), client.name));
  if (!place.Spend(request_->ByteSizeLong())) {
    core_->stats->Refuse(Refusal::kClientBytes);
    return core_->BytesPerSecondError(client.name);
  }
  if (!place.Hold(request_->ByteSizeLong())) {
    core_->stats->Refuse(Refusal::kOverload);
    return absl::ResourceExhaustedError(absl::StrCat("received messages hold ",
                                                     core_->options.limits.bytes_in_flight_max,
                                                     " bytes, the limit (bytes_in_flight_max)"));
  }
  absl::StatusOr<std::unique_ptr<PushStream>> opened = core_->sink->Open(
      request_->hello(),
      [shared = shared_, stats = core_->stats](const v1::Ack& ack) {
        IngestStats::Add(stats->duplicates, ack.duplicates());
        base::MutexLock lock(&shared->mutex);
        shared->acks.OnAck(ack);
        shared->changed.NotifyAll();
      },
      [shared = shared_](const absl::Status& status) {
        base::MutexLock lock(&shared->mutex);
        shared->ended.Update(status);
        shared->changed.NotifyAll();
      });
  if (!opened.ok()) {
    core_->stats->Refuse(Refusal::kSink);
    return opened.status();
  }
  PushStream* const stream = opened->get();
  *response_->mutable_hello_ack() = stream->hello_ack();
  for (const v1::Report& report : request_->reports()) {
    FORESHOCK_RETURN_IF_ERROR(Submit(stream, report));
  }
  FORESHOCK_RETURN_IF_ERROR(AwaitCommits());
  if (request_->has_goodbye()) {
    FORESHOCK_RETURN_IF_ERROR(state_.OnGoodbye(request_->goodbye()));
    {
      base::MutexLock lock(&shared_->mutex);
      shared_->acks.SubmittingGoodbye();
    }
    FORESHOCK_RETURN_IF_ERROR(stream->Submit(request_->goodbye()));
    FORESHOCK_RETURN_IF_ERROR(AwaitCommits());
  }
  base::MutexLock lock(&shared_->mutex);
  *response_->mutable_ack() = shared_->acks.Take();
  return absl::OkStatus();
}

absl::Status PushOnceReactor::Submit(PushStream* stream, const v1::Report& report) {
  v1::Report checkable = report;
  absl::StatusOr<StreamState::Checked> checked = state_.OnReport(&checkable);
  if (!checked.ok()) {
    core_->stats->Refuse(Refusal::kProtocol);
    return checked.status();
  }
  {
    base::MutexLock lock(&shared_->mutex);
    FORESHOCK_RETURN_IF_ERROR(shared_->ended);
    if (!checked->report_stands) {
      shared_->acks.RejectHere(report.seq(), std::move(checked->rejections.front()));
      return absl::OkStatus();
    }
    shared_->acks.Submitting(report.seq());
  }
  // A caller of single calls retries by itself: no room is its answer at once.
  const absl::Status status =
      stream->Submit(checkable, state_.names(), std::move(checked->rejections));
  if (absl::IsResourceExhausted(status)) core_->stats->Refuse(Refusal::kOverload);
  return status;
}

absl::Status PushOnceReactor::AwaitCommits() {
  const absl::Time give_up = base::SteadyNow() + core_->options.submit_wait_max;
  base::MutexLock lock(&shared_->mutex);
  while (!shared_->acks.AllCommitted()) {
    FORESHOCK_RETURN_IF_ERROR(shared_->ended);
    const absl::Duration left = give_up - base::SteadyNow();
    if (left <= absl::ZeroDuration()) {
      core_->stats->Refuse(Refusal::kOverload);
      return absl::ResourceExhaustedError(absl::StrCat(
          "not committed within ", absl::FormatDuration(core_->options.submit_wait_max),
          "; what was taken is counted once when it is sent again"));
    }
    shared_->changed.WaitFor(&shared_->mutex, left);
  }
  return absl::OkStatus();
}

}  // namespace foreshock::ingest
