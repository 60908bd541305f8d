#include "daemon/pipeline/rank_stream.h"

#include <utility>

#include "daemon/base/status_macros.h"

namespace foreshock::pipeline {

class RankStream::PushHandle final : public ingest::PushStream {
 public:
  explicit PushHandle(std::shared_ptr<RankStream> stream) : stream_(std::move(stream)) {}

  ~PushHandle() override {
    {
      base::MutexLock lock(&stream_->mutex_);
      stream_->on_ack_ = nullptr;
      stream_->on_end_ = nullptr;
    }
    stream_->inbox_->PutAlways(stream_->run_, EndWork{stream_});
  }

  const v1::HelloAck& hello_ack() const override { return stream_->hello_ack_; }

  absl::Status Submit(const v1::Report& report, const model::StreamNames& names,
                      std::vector<v1::Rejection> rejections) override {
    ReportWork work{.stream = stream_, .bytes = report.ByteSizeLong()};
    FORESHOCK_RETURN_IF_ERROR(stream_->inbox_->Reserve(stream_->run_, work.bytes));
    work.report = SummariseReport(report, names, stream_->reporter_, &rejections);
    work.rejections = std::move(rejections);
    return stream_->inbox_->Put(stream_->run_, std::move(work));
  }

  absl::Status Submit(const v1::Goodbye& goodbye) override {
    return stream_->inbox_->Put(stream_->run_, GoodbyeWork{stream_, goodbye.outcome()});
  }

 private:
  const std::shared_ptr<RankStream> stream_;
};

RankStream::RankStream(Inbox* inbox, const v1::Hello& hello, StreamId id,
                       ingest::PushStream::AckFn on_ack, ingest::PushStream::EndFn on_end)
    : inbox_(inbox),
      id_(id),
      run_(hello.run()),
      reporter_{.sender = {.rank = hello.rank(),
                           .coordinates = hello.coordinates(),
                           .model = hello.model()},
                .client_instance = hello.client_instance()},
      on_ack_(std::move(on_ack)),
      on_end_(std::move(on_end)) {}

std::unique_ptr<ingest::PushStream> RankStream::Handle(std::shared_ptr<RankStream> stream) {
  return std::make_unique<PushHandle>(std::move(stream));
}

void RankStream::Admit(const Admitted& admitted, const v1::HelloAck& hello_ack) {
  attempt_ = admitted.attempt;
  reporter_.committed_seq = admitted.last_committed_seq;
  reporter_.snapshots = admitted.snapshots;
  hello_ack_ = hello_ack;
}

void RankStream::SendAck(const v1::Ack& ack) {
  base::MutexLock lock(&mutex_);
  if (on_ack_ != nullptr) on_ack_(ack);
}

void RankStream::End(const absl::Status& status) {
  base::MutexLock lock(&mutex_);
  if (on_end_ != nullptr) on_end_(status);
  on_end_ = nullptr;
}

}  // namespace foreshock::pipeline
