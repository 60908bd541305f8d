#include "daemon/pipeline/rank_stream.h"

#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/pipeline/pipeline.h"

namespace foreshock {

RankStream::RankStream(Pipeline* pipeline, const v1::Hello& hello, StreamId id,
                       PushStream::AckFn on_ack, PushStream::EndFn on_end)
    : pipeline_(pipeline),
      id_(id),
      run_(hello.run()),
      reporter_{.sender = {.rank = hello.rank(),
                           .coordinates = hello.coordinates(),
                           .model = hello.model()},
                .client_instance = hello.client_instance()},
      on_ack_(std::move(on_ack)),
      on_end_(std::move(on_end)) {}

void RankStream::Admit(const RunState::Admitted& admitted, const v1::HelloAck& hello_ack) {
  attempt_ = admitted.attempt;
  reporter_.committed_seq = admitted.last_committed_seq;
  reporter_.snapshots = admitted.snapshots;
  hello_ack_ = hello_ack;
}

absl::Status RankStream::Submit(const v1::Report& report, const StreamNames& names,
                                std::vector<v1::Rejection> rejections,
                                const std::shared_ptr<RankStream>& self) {
  const size_t bytes = report.ByteSizeLong();
  FORESHOCK_RETURN_IF_ERROR(pipeline_->Reserve(bytes));
  Pipeline::ReportWork work;
  work.stream = self;
  work.bytes = bytes;
  work.report = SummariseReport(report, names, reporter_, &rejections);
  work.rejections = std::move(rejections);
  return pipeline_->Enqueue(std::move(work));
}

void RankStream::SendAck(const v1::Ack& ack) {
  MutexLock lock(&mutex_);
  if (on_ack_ != nullptr) on_ack_(ack);
}

void RankStream::End(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (on_end_ != nullptr) on_end_(status);
  on_end_ = nullptr;
}

void RankStream::Detach() {
  MutexLock lock(&mutex_);
  on_ack_ = nullptr;
  on_end_ = nullptr;
}

}  // namespace foreshock
