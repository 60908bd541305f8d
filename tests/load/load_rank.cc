#include "tests/load/load_rank.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/src/stream.h"

namespace foreshock::load {
namespace {

constexpr absl::Duration kReconnectWait = absl::Seconds(1);

}  // namespace

// One stream. Its hold lets reports be written from outside of gRPC's calls; it is given up when
// nothing more can be read, with the rank's pointer to it.
class LoadRank::Call final : public grpc::ClientBidiReactor<v1::PushRequest, v1::PushResponse> {
 public:
  explicit Call(LoadRank* rank) : rank_(rank) {
    rank_->stub_->async()->Push(&context_, this);
    AddHold();
    StartRead(&response_);
    *hello_.mutable_hello() = rank_->hello_;
    StartWrite(&hello_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (ok) {
      rank_->OnResponse(response_);
      StartRead(&response_);
      return;
    }
    {
      base::MutexLock lock(&rank_->mutex_);
      rank_->call_ = nullptr;
      rank_->open_ = false;
    }
    RemoveHold();
  }
  void OnWriteDone(bool ok) override { rank_->OnWritten(ok); }
  void OnDone(const grpc::Status& status) override {
    rank_->OnEnd(status);
    delete this;
  }

 private:
  LoadRank* const rank_;
  grpc::ClientContext context_;
  v1::PushRequest hello_;
  v1::PushResponse response_;
};

LoadRank::LoadRank(const LoadOptions& options, const ReportMaker& maker, uint32_t rank,
                   std::shared_ptr<grpc::Channel> channel)
    : options_(options),
      maker_(maker),
      hello_(maker.Hello(rank)),
      stub_(v1::IngestService::NewStub(std::move(channel))) {
  latencies_ms_.reserve(static_cast<size_t>(options_.steps()));
}

LoadRank::~LoadRank() = default;

void LoadRank::Connect(absl::Time now) {
  base::MutexLock lock(&mutex_);
  if (stopped_ || now < connect_at_) return;
  connect_at_ = absl::InfiniteFuture();  // until the stream ends
  writing_ = true;  // the Hello, whose answer may be heard before its OnWriteDone
  declared_ = false;
  goodbye_written_ = false;
  call_ = new Call(this);
}

void LoadRank::Begin(absl::Time first_due) {
  base::MutexLock lock(&mutex_);
  first_due_ = first_due;
}

void LoadRank::SetDue(int64_t steps) {
  base::MutexLock lock(&mutex_);
  counts_.due = static_cast<uint64_t>(steps);
  WriteNext();
}

void LoadRank::Finish() {
  base::MutexLock lock(&mutex_);
  finish_ = true;
  WriteNext();
}

void LoadRank::Stop() {
  base::MutexLock lock(&mutex_);
  stopped_ = true;
  if (call_ != nullptr) call_->Cancel();
}

bool LoadRank::idle() const {
  base::MutexLock lock(&mutex_);
  return connect_at_ != absl::InfiniteFuture();
}

// gRPC calls nothing of ours from within StartWrite, so the lock may be held.
void LoadRank::WriteNext() {
  if (!open_ || writing_ || goodbye_written_) return;
  if (next_step_ < static_cast<int64_t>(counts_.due)) {
    maker_.Make(hello_.rank(), next_step_++, &request_);
    if (!std::exchange(declared_, true)) maker_.Declare(&request_);
    ++counts_.sent;
  } else if (finish_ && counts_.acked == counts_.due) {
    request_.mutable_goodbye()->set_outcome(v1::OUTCOME_FINISHED);
    goodbye_written_ = true;
  } else {
    return;
  }
  writing_ = true;
  call_->StartWrite(&request_);
}

void LoadRank::OnResponse(const v1::PushResponse& response) {
  const absl::Time now = absl::Now();
  base::MutexLock lock(&mutex_);
  uint64_t acked = response.ack().seq();
  if (response.has_hello_ack()) {
    open_ = true;
    ++counts_.greeted;
    acked = response.hello_ack().last_committed_seq();  // what earlier streams had committed
    next_step_ = static_cast<int64_t>(acked);
  }
  for (const v1::Rejection& rejection : response.ack().rejections()) {
    ++counts_.rejected;
    if (!rejection_.empty()) continue;
    rejection_ =
        absl::StrCat("rank ", hello_.rank(), ", seq ", rejection.seq(), ": ", rejection.reason());
  }
  for (; counts_.acked < std::min(acked, counts_.due); ++counts_.acked) {
    const absl::Time due = first_due_ + static_cast<int64_t>(counts_.acked) * options_.interval;
    latencies_ms_.push_back(static_cast<float>(absl::ToDoubleMilliseconds(now - due)));
  }
  WriteNext();
}

void LoadRank::OnWritten(bool ok) {
  base::MutexLock lock(&mutex_);
  writing_ = false;
  maker_.Shrink(&request_);
  if (ok) WriteNext();  // else the stream is over, which its reader hears
}

void LoadRank::OnEnd(const grpc::Status& status) {
  base::MutexLock lock(&mutex_);
  if (status.ok() && goodbye_written_) {
    counts_.finished = 1;
    stopped_ = true;
    connect_at_ = absl::InfinitePast();
    return;
  }
  if (!stopped_) {
    ++counts_.ended;
    last_error_ =
        absl::StrCat("code ", static_cast<int>(status.error_code()), ": ", status.error_message());
  }
  connect_at_ = absl::Now() + client_internal::RetryDelay(status).value_or(kReconnectWait);
}

RankCounts LoadRank::counts() const {
  base::MutexLock lock(&mutex_);
  RankCounts counts = counts_;
  counts.open = open_ ? 1 : 0;
  return counts;
}

void LoadRank::AppendLatencies(size_t from, std::vector<float>* out) const {
  base::MutexLock lock(&mutex_);
  out->insert(out->end(), latencies_ms_.begin() + static_cast<std::ptrdiff_t>(from),
              latencies_ms_.end());
}

std::string LoadRank::last_error() const {
  base::MutexLock lock(&mutex_);
  return last_error_;
}

std::string LoadRank::rejection() const {
  base::MutexLock lock(&mutex_);
  return rejection_;
}

}  // namespace foreshock::load
