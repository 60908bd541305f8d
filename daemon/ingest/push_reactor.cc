#include "daemon/ingest/push_reactor.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::ingest {
namespace {

// gRPC tells of a message that cannot be parsed as it tells of the stream's end. But parsing begins
// by clearing the message: only where nothing came is this mark, which nobody sends, still there.
constexpr auto kUnread = static_cast<v1::Outcome>(-1);

bool IsUnread(const v1::PushRequest& request) {
  return request.has_goodbye() && request.goodbye().outcome() == kUnread;
}

}  // namespace

PushReactor::PushReactor(ServiceCore* core, security::Caller caller)
    : core_(core),
      caller_(std::move(caller)),
      handle_(std::make_shared<ReactorHandle>()),
      state_(core->options.limits, core->stats) {
  {
    base::MutexLock lock(&handle_->mutex);
    handle_->reactor = this;
  }
  core_->Add(handle_);
  // After Add, so that a stream that begins while Drain runs sees one or the other.
  absl::Status status = core_->CheckNotDraining();
  if (status.ok()) status = core_->CheckMayPush(caller_);
  if (!status.ok()) {
    base::MutexLock lock(&handle_->mutex);
    if (!end_.has_value()) end_ = core_->StatusOf(status);
  }
  Leave();
}

// ---- Who is inside, and what is due.

template <typename Then>
void PushReactor::With(const std::shared_ptr<ReactorHandle>& handle, Then then) {
  PushReactor* reactor = nullptr;
  {
    base::MutexLock lock(&handle->mutex);
    reactor = handle->reactor;
    if (reactor == nullptr || reactor->finished_) return;
    ++reactor->busy_;
  }
  then(reactor);
  reactor->Leave();
}

void PushReactor::Enter() {
  base::MutexLock lock(&handle_->mutex);
  ++busy_;
}

PushReactor::Action PushReactor::NextAction(grpc::Status* end) {
  base::MutexLock lock(&handle_->mutex);
  const bool has_output = (hello_ack_.has_value() || acks_.HasAck()) && !peer_gone_;
  if (has_output && !write_in_flight_ && !finished_) {
    if (hello_ack_.has_value()) {
      *response_.mutable_hello_ack() = *std::move(hello_ack_);
      hello_ack_.reset();
    } else {
      *response_.mutable_ack() = acks_.Take();
    }
    write_in_flight_ = true;
    return Action::kWrite;
  }
  const bool ending = end_.has_value() || peer_gone_;
  // A sender that does not read its acks is not read either, once it has collected many rejections.
  if (want_read_ && !ending && acks_.rejections() <= core_->options.limits.rejections_queued_max) {
    want_read_ = false;
    return Action::kRead;
  }
  if (goodbye_due_ && !ending && acks_.AllCommitted()) {
    goodbye_due_ = false;
    return Action::kGoodbye;
  }
  --busy_;
  if (busy_ > 0 || write_in_flight_ || finished_ || !ending) return Action::kNone;
  if (!peer_gone_ && end_after_commits_ && !acks_.AllCommitted()) return Action::kNone;
  finished_ = true;
  *end = end_.has_value() ? *end_ : grpc::Status::CANCELLED;
  return Action::kFinish;
}

void PushReactor::Leave() {
  grpc::Status end;
  while (true) {
    switch (NextAction(&end)) {
      case Action::kWrite:
        StartWrite(&response_);
        break;
      case Action::kRead:
        request_.mutable_goodbye()->set_outcome(kUnread);
        StartRead(&request_);
        break;
      case Action::kGoodbye:
        Defer(absl::ZeroDuration(), &PushReactor::SubmitGoodbye);
        break;
      case Action::kFinish:
        Finish(end);
        return;
      case Action::kNone:
        return;
    }
  }
}

void PushReactor::Defer(absl::Duration delay, void (PushReactor::*then)()) {
  auto alarm = std::make_shared<grpc::Alarm>();
  {
    base::MutexLock lock(&handle_->mutex);
    ++busy_;
    alarm_ = alarm;
  }
  const auto at = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(delay);
  alarm->Set(at, [this, then](bool) {
    (this->*then)();
    Leave();
  });
  // An end that was set before this alarm could be found, or before it was armed, has not woken it.
  if (Ending()) alarm->Cancel();
}

bool PushReactor::RunOn(base::WorkerPool* pool, void (PushReactor::*then)()) {
  Enter();
  const bool taken = pool->TryRun([this, then] {
    (this->*then)();
    Leave();
  });
  if (!taken) {
    base::MutexLock lock(&handle_->mutex);
    --busy_;  // the caller is inside too, so this is not the last one
  }
  return taken;
}

bool PushReactor::Ending() {
  base::MutexLock lock(&handle_->mutex);
  return end_.has_value() || peer_gone_;
}

void PushReactor::WakeDeferred() {
  std::shared_ptr<grpc::Alarm> alarm;
  {
    base::MutexLock lock(&handle_->mutex);
    alarm = alarm_;
  }
  if (alarm != nullptr) alarm->Cancel();
}

void PushReactor::EndWith(const absl::Status& status, Refusal reason) {
  place_.Release();
  base::MutexLock lock(&handle_->mutex);
  if (end_.has_value()) return;
  core_->stats->Refuse(reason);
  end_ = core_->StatusOf(status);
}

// ---- gRPC's events.

void PushReactor::OnReadDone(bool ok) {
  Enter();
  if (ok) {
    OnMessage();
  } else if (!IsUnread(request_)) {
    EndWith(absl::InvalidArgumentError(
                "a message is no PushRequest: its bytes cannot be parsed (proto3, UTF-8 names)"),
            Refusal::kProtocol);
  } else {
    // The sender ended its side, or the stream is over. Without a Goodbye that says nothing.
    base::MutexLock lock(&handle_->mutex);
    if (!end_.has_value() && !goodbye_given_) {
      end_ = grpc::Status::OK;
      end_after_commits_ = true;
    }
  }
  Leave();
}

void PushReactor::OnWriteDone(bool ok) {
  Enter();
  {
    base::MutexLock lock(&handle_->mutex);
    write_in_flight_ = false;
    if (!ok) peer_gone_ = true;
  }
  Leave();
}

void PushReactor::OnCancel() {
  Enter();
  {
    base::MutexLock lock(&handle_->mutex);
    peer_gone_ = true;
  }
  WakeDeferred();
  Leave();
}

void PushReactor::OnDone() {
  {
    base::MutexLock lock(&handle_->mutex);
    handle_->reactor = nullptr;
  }
  core_->Remove(handle_);
  delete this;
}

// ---- The messages of the stream.

void PushReactor::OnMessage() {
  request_bytes_ = request_.ByteSizeLong();
  IngestStats::Add(core_->stats->bytes, request_bytes_);
  if (!StillAdmitted()) return;
  switch (request_.message_case()) {
    case v1::PushRequest::kHello:
      return OnHello();
    case v1::PushRequest::kReport:
      return OnReport();
    case v1::PushRequest::kGoodbye:
      return OnGoodbye();
    case v1::PushRequest::MESSAGE_NOT_SET:
      return EndWith(absl::InvalidArgumentError(
                         "a message is none of hello, report and goodbye (unset, or the sender is "
                         "newer than this daemon)"),
                     Refusal::kProtocol);
  }
}

bool PushReactor::StillAdmitted() {
  if (stream_ == nullptr || core_->access == nullptr) return true;
  const uint64_t version = core_->access->version();
  if (version == access_version_) return true;
  if (const absl::Status status = core_->access->AdmitPush(caller_, run_).status(); !status.ok()) {
    EndWith(status, Refusal::kAccess);
    return false;
  }
  access_version_ = version;
  return true;
}

void PushReactor::ReadNext() {
  request_.Clear();  // an idle stream keeps no payload
  base::MutexLock lock(&handle_->mutex);
  want_read_ = true;
}

void PushReactor::OnHello() {
  if (const absl::Status status = state_.OnHello(request_.hello()); !status.ok()) {
    return EndWith(status, Refusal::kBadHello);
  }
  run_ = request_.hello().run();
  access_version_ = core_->access == nullptr ? 0 : core_->access->version();
  if (const absl::Status status = Admit(run_); !status.ok()) {
    base::MutexLock lock(&handle_->mutex);  // counted where it was refused
    if (!end_.has_value()) end_ = core_->StatusOf(status);
    return;
  }
  if (!RunOn(&core_->openers, &PushReactor::Open)) {
    EndWith(absl::ResourceExhaustedError(absl::StrCat(
                core_->options.open_tasks_max, " streams are waiting to be opened, the limit")),
            Refusal::kOverload);
  }
}

absl::Status PushReactor::Admit(const std::string& run) {
  FORESHOCK_ASSIGN_OR_RETURN(security::Client client, core_->AdmitPush(caller_, run));
  FORESHOCK_ASSIGN_OR_RETURN(place_, core_->admission.Enter(run, client.name));
  client_ = std::move(client.name);
  return absl::OkStatus();
}

void PushReactor::Open() {
  if (Ending()) return;
  absl::StatusOr<std::unique_ptr<PushStream>> stream = core_->sink->Open(
      request_.hello(),
      [handle = handle_](const v1::Ack& ack) {
        With(handle, [&ack](PushReactor* reactor) { reactor->OnAck(ack); });
      },
      [handle = handle_](const absl::Status& status) {
        With(handle, [&status](PushReactor* reactor) { reactor->OnSinkEnd(status); });
      });
  if (!stream.ok()) return EndWith(stream.status(), Refusal::kSink);
  stream_ = *std::move(stream);
  {
    base::MutexLock lock(&handle_->mutex);
    hello_ack_ = stream_->hello_ack();
  }
  ReadNext();
}

void PushReactor::OnReport() {
  absl::StatusOr<StreamState::Checked> checked = state_.OnReport(request_.mutable_report());
  if (!checked.ok()) return EndWith(checked.status(), Refusal::kProtocol);
  if (!checked->report_stands) {
    {
      base::MutexLock lock(&handle_->mutex);
      acks_.RejectHere(request_.report().seq(), std::move(checked->rejections.front()));
    }
    return ReadNext();
  }
  rejections_ = std::move(checked->rejections);
  spent_ = false;
  retries_left_ =
      std::max<int64_t>(0, core_->options.submit_wait_max / core_->options.submit_retry_interval);
  DispatchReport();
}

void PushReactor::DispatchReport() {
  if (Ending()) return place_.Release();
  if (!spent_ && !(spent_ = place_.Spend(request_bytes_))) {
    return NoRoomForReport(core_->BytesPerSecondError(client_), Refusal::kClientBytes);
  }
  if (!IsHeavy(request_.report())) return SubmitReport();
  if (!RunOn(&core_->heavy, &PushReactor::SubmitReport)) {
    NoRoomForReport(absl::ResourceExhaustedError(
        absl::StrCat(core_->options.heavy_tasks_max, " reports with weights are waiting")));
  }
}

void PushReactor::SubmitReport() {
  if (!place_.Hold(request_bytes_)) {
    return NoRoomForReport(absl::ResourceExhaustedError(
        absl::StrCat("received messages hold ", core_->options.limits.bytes_in_flight_max,
                     " bytes, the limit (bytes_in_flight_max)")));
  }
  {
    base::MutexLock lock(&handle_->mutex);
    acks_.Submitting(request_.report().seq());
  }
  const absl::Status status = stream_->Submit(request_.report(), state_.names(), rejections_);
  if (status.ok()) {
    place_.Release();
    return ReadNext();
  }
  {
    base::MutexLock lock(&handle_->mutex);
    acks_.NotSubmitted();
  }
  if (absl::IsResourceExhausted(status)) return NoRoomForReport(status);
  EndWith(status, Refusal::kSinkEnded);
}

void PushReactor::NoRoomForReport(const absl::Status& status, Refusal reason) {
  if (retries_left_-- <= 0) return EndWith(status, reason);
  IngestStats::Add(core_->stats->submit_retries);
  Defer(core_->options.submit_retry_interval, &PushReactor::DispatchReport);
}

void PushReactor::OnGoodbye() {
  if (const absl::Status status = state_.OnGoodbye(request_.goodbye()); !status.ok()) {
    return EndWith(status, Refusal::kProtocol);
  }
  retries_left_ =
      std::max<int64_t>(0, core_->options.submit_wait_max / core_->options.submit_retry_interval);
  base::MutexLock lock(&handle_->mutex);
  goodbye_given_ = true;
  goodbye_due_ = true;
}

void PushReactor::SubmitGoodbye() {
  if (Ending()) return;
  {
    base::MutexLock lock(&handle_->mutex);
    acks_.SubmittingGoodbye();
  }
  const absl::Status status = stream_->Submit(request_.goodbye());
  if (status.ok()) {
    base::MutexLock lock(&handle_->mutex);
    if (end_.has_value()) return;
    end_ = grpc::Status::OK;
    end_after_commits_ = true;
    return;
  }
  {
    base::MutexLock lock(&handle_->mutex);
    acks_.GoodbyeNotSubmitted();
  }
  if (!absl::IsResourceExhausted(status) || retries_left_-- <= 0) {
    return EndWith(status, Refusal::kOverload);
  }
  Defer(core_->options.submit_retry_interval, &PushReactor::SubmitGoodbye);
}

// ---- The sink's calls, and the service's.

void PushReactor::OnAck(const v1::Ack& ack) {
  IngestStats::Add(core_->stats->duplicates, ack.duplicates());
  base::MutexLock lock(&handle_->mutex);
  acks_.OnAck(ack);
}

void PushReactor::OnSinkEnd(const absl::Status& status) {
  {
    base::MutexLock lock(&handle_->mutex);
    if (!end_.has_value()) {
      core_->stats->Refuse(Refusal::kSinkEnded);
      end_ = core_->StatusOf(status);
    }
    end_after_commits_ = false;  // nothing more will come from the sink
  }
  WakeDeferred();
}

void PushReactor::Drain(const std::shared_ptr<ReactorHandle>& handle) {
  With(handle, [](PushReactor* reactor) {
    {
      base::MutexLock lock(&reactor->handle_->mutex);
      // A stream that has said Goodbye ends by itself, and better.
      if (reactor->end_.has_value() || reactor->goodbye_given_) return;
      reactor->core_->stats->Refuse(Refusal::kDraining);
      reactor->end_ = reactor->core_->StatusOf(ServiceCore::DrainingError());
      reactor->end_after_commits_ = true;
    }
    reactor->WakeDeferred();
  });
}

}  // namespace foreshock::ingest
