#include "client/cpp/src/sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/src/split.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"

namespace foreshock::client_internal {
namespace {

v1::PushRequest MakeHello(const ClientOptions& options) {
  v1::PushRequest request;
  v1::Hello* hello = request.mutable_hello();
  hello->set_run(options.run);
  hello->set_launch_id(options.launch_id);
  hello->set_client_instance(options.client_instance);
  hello->set_rank(options.rank);
  *hello->mutable_coordinates() = options.coordinates;
  hello->set_world_size(options.world_size);
  *hello->mutable_model() = options.model;
  hello->mutable_plan()->Add(options.plan.begin(), options.plan.end());
  if (options.parent_attempt) hello->set_parent_attempt(*options.parent_attempt);
  if (options.resume_step) hello->set_resume_step(*options.resume_step);
  hello->set_client_version("foreshock-cpp/" FORESHOCK_VERSION);
  hello->mutable_labels()->insert(options.labels.begin(), options.labels.end());
  return request;
}

std::unique_ptr<v1::IngestService::Stub> MakeStub(const ClientOptions& options,
                                                  const Secrets& secrets) {
  grpc::ChannelArguments args;
  args.SetMaxSendMessageSize(-1);  // the daemon's limit is what counts
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
              static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_interval)));
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // a step may take minutes
  // The waits are ours; the channel must not add its own, nor share them with another client.
  const int backoff_ms =
      static_cast<int>(std::max<int64_t>(1, absl::ToInt64Milliseconds(options.backoff_min / 2)));
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, backoff_ms);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, backoff_ms);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);  // the time one connect may take
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::IngestService::NewStub(MakeChannel(options.target, secrets, args));
}

}  // namespace

Sender::Sender(const ClientOptions& options, bool instance_is_ours)
    : options_(options),
      instance_is_ours_(instance_is_ours),
      hello_(MakeHello(options)),
      backoff_{.first = options.backoff_min, .max = options.backoff_max},
      queue_({.bytes_max = options.queue_bytes_max, .reports_max = options.queue_reports_max}),
      message_bytes_max_(options.message_bytes_max),
      thread_([this] { Run(); }) {}

Sender::~Sender() { StopAndJoin(); }

absl::StatusOr<uint32_t> Sender::DeclareScalar(const ScalarOptions& scalar) {
  v1::ScalarDeclaration declaration;
  declaration.set_name(scalar.name);
  declaration.set_unit(scalar.unit);
  declaration.set_reduction(scalar.reduction);
  declaration.set_scope(scalar.scope);
  base::MutexLock lock(&mutex_);
  return names_.DeclareScalar(std::move(declaration));
}

absl::Status Sender::Push(v1::Report report) {
  // Sizes are computed outside the lock; the limit may only shrink once, at the first HelloAck.
  std::vector<v1::Report> parts = Split(std::move(report), options_.message_bytes_max);
  absl::Status status;
  {
    base::MutexLock lock(&mutex_);
    for (v1::Report& part : parts) status.Update(PushPart(std::move(part)));
    work_.NotifyOne();  // no system call while the background thread waits for the daemon
  }
  return status;
}

absl::Status Sender::PushPart(v1::Report part) {
  ++last_seq_;
  ++stats_.dropped;  // taken back at the end
  FORESHOCK_RETURN_IF_ERROR(UsableLocked());
  FORESHOCK_RETURN_IF_ERROR(names_.Absorb(&part));
  part.set_seq(last_seq_);
  const size_t bytes = part.ByteSizeLong();
  const size_t bytes_max = std::min(message_bytes_max_, options_.queue_bytes_max);
  if (bytes > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("pushing step ", part.step(), ": ", bytes, " bytes, allowed are ", bytes_max));
  }
  if (!queue_.HasRoom(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("pushing step ", part.step(), ": no room for ",
                                                     bytes, " bytes beside the ", queue_.bytes(),
                                                     " that are not yet committed"));
  }
  queue_.Push(std::move(part), last_seq_, bytes);
  --stats_.dropped;
  ++stats_.pushed;
  return absl::OkStatus();
}

absl::Status Sender::UsableLocked() const {
  if (stats_.refused) {
    return absl::FailedPreconditionError(
        absl::StrCat("the daemon refused this client: ", stats_.last_error));
  }
  if (closing_) return absl::FailedPreconditionError("the client is closed");
  return absl::OkStatus();
}

bool Sender::WaitForRoom(size_t bytes, absl::Duration timeout) {
  const absl::Time until = base::SteadyNow() + timeout;
  base::MutexLock lock(&mutex_);
  while (UsableLocked().ok() && !queue_.HasRoom(bytes)) {
    const absl::Duration left = until - base::SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return UsableLocked().ok();
}

absl::Status Sender::Flush(absl::Duration timeout) {
  const absl::Time until = base::SteadyNow() + timeout;
  base::MutexLock lock(&mutex_);
  while (queue_.size() > 0 && !stop_) {
    const absl::Duration left = until - base::SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("flushing to ", options_.target, ": ", queue_.size(),
                       " reports are not committed after ", absl::FormatDuration(timeout), "; ",
                       stats_.last_error.empty() ? "no stream has failed" : stats_.last_error));
    }
    changed_.WaitFor(&mutex_, left);
  }
  return stats_.refused ? UsableLocked() : absl::OkStatus();
}

absl::Status Sender::Close(v1::Outcome outcome, absl::Duration timeout) {
  const absl::Time until = base::SteadyNow() + timeout;
  absl::Status status;
  {
    base::MutexLock lock(&mutex_);
    FORESHOCK_RETURN_IF_ERROR(UsableLocked());
    closing_ = true;
    goodbye_.mutable_goodbye()->set_outcome(outcome);
    WakeAll();
    while (!done_ && base::SteadyNow() < until)
      changed_.WaitFor(&mutex_, until - base::SteadyNow());
    if (stats_.refused) {
      status = UsableLocked();
    } else if (!done_) {
      status = absl::DeadlineExceededError(
          absl::StrCat("closing the stream to ", options_.target, ": ", queue_.size(),
                       " reports are lost and the goodbye is not confirmed after ",
                       absl::FormatDuration(timeout)));
    }
  }
  StopAndJoin();
  return status;
}

void Sender::StopAndJoin() {
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
    if (stream_ != nullptr) stream_->Cancel();
    WakeAll();
  }
  if (thread_.joinable()) thread_.join();
}

uint64_t Sender::acked_seq() const {
  base::MutexLock lock(&mutex_);
  return stats_.acked_seq;
}

ClientStats Sender::stats() const {
  base::MutexLock lock(&mutex_);
  ClientStats stats = stats_;
  stats.queue_bytes = queue_.bytes();
  stats.queue_reports = queue_.size();
  return stats;
}

void Sender::Run() {
  while (true) {
    const absl::Duration wait = HandleEnd(RunStream());
    const absl::Time until = base::SteadyNow() + wait;
    base::MutexLock lock(&mutex_);
    while (!stop_ && !done_ && base::SteadyNow() < until)
      changed_.WaitFor(&mutex_, until - base::SteadyNow());
    if (stop_ || done_) {
      WakeAll();
      return;
    }
  }
}

absl::Status Sender::RefreshStub() {
  FORESHOCK_ASSIGN_OR_RETURN(Secrets fresh, ReadSecrets(options_.credentials));
  if (stub_ != nullptr && fresh == secrets_) return absl::OkStatus();
  secrets_ = std::move(fresh);
  stub_ = MakeStub(options_, secrets_);
  return absl::OkStatus();
}

grpc::Status Sender::RunStream() {
  {
    base::MutexLock lock(&mutex_);
    stream_ended_ = false;
    greeted_ = false;
    progressed_ = false;
    goodbye_written_ = false;
    distrust_.clear();
  }
  if (const absl::Status status = RefreshStub(); !status.ok()) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(status.message()));
  }
  Stream stream(stub_.get(), {.on_response = [this](const auto& r) { OnResponse(r); },
                              .on_end =
                                  [this] {
                                    base::MutexLock lock(&mutex_);
                                    stream_ended_ = true;
                                    WakeAll();
                                  }});
  {
    base::MutexLock lock(&mutex_);
    stream_ = &stream;
    if (stop_) stream.Cancel();
  }
  if (stream.Write(hello_, false) && AwaitHelloAck()) WriteReports(&stream);
  {
    base::MutexLock lock(&mutex_);
    if (!distrust_.empty()) stream.Cancel();
  }
  const grpc::Status status = stream.Finish();
  base::MutexLock lock(&mutex_);
  stream_ = nullptr;
  stats_.connected = false;
  return status;
}

bool Sender::AwaitHelloAck() {
  const absl::Time until = base::SteadyNow() + options_.hello_timeout;
  base::MutexLock lock(&mutex_);
  while (!greeted_ && !StreamIsOver()) {
    const absl::Duration left = until - base::SteadyNow();
    if (left <= absl::ZeroDuration()) {
      Distrust(absl::StrCat("no HelloAck within ", absl::FormatDuration(options_.hello_timeout)));
    } else {
      changed_.WaitFor(&mutex_, left);
    }
  }
  return greeted_ && !StreamIsOver();
}

void Sender::WriteReports(Stream* stream) {
  StreamIds known;
  while (true) {
    std::shared_ptr<QueuedReport> next;
    v1::PushRequest goodbye;
    bool more_follows = false;
    {
      base::MutexLock lock(&mutex_);
      // The goodbye waits for the last ack: a report may have to be sent again.
      while (!StreamIsOver() && !(closing_ && queue_.size() == 0)) {
        if (!queue_.HasUnsent()) {
          work_.Wait(&mutex_);
        } else if (const absl::Duration pause = resume_at_ - base::SteadyNow();
                   pause > absl::ZeroDuration()) {
          work_.WaitFor(&mutex_, pause);
        } else {
          break;
        }
      }
      if (StreamIsOver()) return;
      if (queue_.HasUnsent()) {
        next = queue_.Next();
        if (next->written > 1) ++stats_.resent;
        v1::Report* report = next->request.mutable_report();
        report->set_seq(next->seq);
        names_.DeclareFor(report, &known);
        more_follows = queue_.HasUnsent();
      } else {
        goodbye = goodbye_;
      }
    }
    if (next == nullptr) {
      if (stream->Write(goodbye, false)) {
        stream->WritesDone();
        base::MutexLock lock(&mutex_);
        goodbye_written_ = true;
      }
      return;
    }
    if (!stream->Write(next->request, more_follows)) return;
  }
}

absl::Duration Sender::HandleEnd(const grpc::Status& status) {
  const std::optional<absl::Duration> retry_delay = RetryDelay(status);
  QueuedReports given_up;  // freed after the lock
  base::MutexLock lock(&mutex_);
  if (stop_) return absl::ZeroDuration();
  if (status.ok() && goodbye_written_) {
    done_ = true;
    return absl::ZeroDuration();
  }
  stats_.last_error =
      !distrust_.empty() ? absl::StrCat("the daemon broke the contract: ", distrust_)
      : status.ok()      ? "the daemon ended the stream"
                         : absl::StrCat("code ", status.error_code(), ": ", status.error_message());
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
    stats_.refused = true;
    done_ = true;
    given_up = queue_.Clear();
    stats_.dropped += given_up.size();
    return absl::ZeroDuration();
  }
  // Without a delay the reason is a message over some limit on the way: it would end every stream.
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && !retry_delay) {
    if (auto largest = queue_.RemoveLargestSent(); largest != nullptr) {
      given_up.push_back(std::move(largest));
      ++stats_.dropped;
      KeepReason(absl::StrCat("seq ", given_up[0]->seq, " of ", given_up[0]->bytes,
                              " bytes: ", status.error_message()));
    }
  }
  failures_ = progressed_ ? 1 : failures_ + 1;
  const double random = std::generate_canonical<double, 53>(random_);
  return std::max(backoff_.Wait(failures_, random), retry_delay.value_or(absl::ZeroDuration()));
}

void Sender::OnResponse(const v1::PushResponse& response) {
  QueuedReports settled;  // freed after the lock
  base::MutexLock lock(&mutex_);
  switch (response.message_case()) {
    case v1::PushResponse::kHelloAck:
      settled = OnHelloAck(response.hello_ack());
      break;
    case v1::PushResponse::kAck:
      settled = OnAck(response.ack());
      break;
    case v1::PushResponse::MESSAGE_NOT_SET:  // not empty: a kind of answer that a newer daemon has
      if (response.ByteSizeLong() == 0) Distrust("a response without a message");
      break;
  }
  WakeAll();
}

QueuedReports Sender::OnHelloAck(const v1::HelloAck& ack) {
  if (greeted_) {
    Distrust("a second HelloAck on one stream");
    return {};
  }
  if (instance_is_ours_ && ack.last_committed_seq() > last_seq_) {
    Distrust(absl::StrCat("last_committed_seq is ", ack.last_committed_seq(), ", sent was up to ",
                          queue_.last_sent_seq()));
    return {};
  }
  greeted_ = true;
  committed_before_ = ack.last_committed_seq();
  stats_.connected = true;
  ++stats_.streams;
  stats_.attempt = ack.attempt();
  QueuedReports settled = queue_.Acknowledge(committed_before_);
  stats_.committed += settled.size();
  stats_.acked_seq = std::max(stats_.acked_seq, committed_before_);
  queue_.Rewind();
  if (ack.limits().message_bytes_max() > 0) {
    message_bytes_max_ =
        std::min<uint64_t>(options_.message_bytes_max, ack.limits().message_bytes_max());
    for (auto& report : queue_.RemoveLargerThan(message_bytes_max_)) {
      ++stats_.dropped;
      KeepReason(absl::StrCat("seq ", report->seq, " has ", report->bytes,
                              " bytes, the daemon allows ", message_bytes_max_));
      settled.push_back(std::move(report));
    }
  }
  return settled;
}

QueuedReports Sender::OnAck(const v1::Ack& ack) {
  if (!greeted_) {
    Distrust("an Ack before the HelloAck");
    return {};
  }
  const uint64_t seq_max = std::max(queue_.last_sent_seq(), committed_before_);
  if (ack.seq() > seq_max) {
    Distrust(absl::StrCat("Ack of seq ", ack.seq(), ", sent was up to ", seq_max));
    return {};
  }
  progressed_ = true;
  for (const v1::Rejection& rejection : ack.rejections()) OnRejection(rejection);
  QueuedReports settled = queue_.Acknowledge(ack.seq());
  stats_.committed += settled.size();
  stats_.duplicates += ack.duplicates();
  stats_.acked_seq = std::max(stats_.acked_seq, ack.seq());
  return settled;
}

void Sender::OnRejection(const v1::Rejection& rejection) {
  KeepReason(absl::StrCat("seq ", rejection.seq(), ": ", rejection.reason()));
  if (rejection.has_summary_index()) {
    ++stats_.rejected_summaries;
    return;
  }
  ++stats_.rejected_reports;
  // Its seq is behind the daemon's mark now, so it goes again under a new one.
  if (rejection.has_retry_delay() && queue_.Requeue(rejection.seq(), last_seq_ + 1)) {
    ++last_seq_;
    resume_at_ =
        std::max(resume_at_, base::SteadyNow() + absl::Seconds(rejection.retry_delay().seconds()) +
                                 absl::Nanoseconds(rejection.retry_delay().nanos()));
    return;
  }
  if (queue_.Remove(rejection.seq()) != nullptr) ++stats_.dropped;
}

void Sender::Distrust(std::string what) {
  distrust_ = std::move(what);
  if (stream_ != nullptr) stream_->Cancel();
}

void Sender::WakeAll() {
  work_.NotifyAll();
  changed_.NotifyAll();
}

void Sender::KeepReason(std::string reason) {
  if (stats_.rejections.size() == ClientStats::kRejectionsMax) {
    stats_.rejections.erase(stats_.rejections.begin());
  }
  stats_.rejections.push_back(std::move(reason));
}

}  // namespace foreshock::client_internal
