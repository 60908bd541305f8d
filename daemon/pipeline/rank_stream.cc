#include "daemon/pipeline/rank_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/indicators/sources.h"
#include "daemon/pipeline/pipeline.h"

namespace foreshock {
namespace {

v1::Rejection Reject(uint64_t seq, int index, const absl::Status& status) {
  v1::Rejection rejection;
  rejection.set_seq(seq);
  rejection.set_summary_index(static_cast<uint32_t>(index));
  rejection.set_code(static_cast<uint32_t>(status.code()));
  rejection.set_reason(std::string(status.message()));
  return rejection;
}

}  // namespace

RankStream::RankStream(Pipeline* pipeline, const v1::Hello& hello, StreamId id,
                       PushStream::AckFn on_ack, PushStream::EndFn on_end)
    : pipeline_(pipeline),
      id_(id),
      run_(hello.run()),
      client_instance_(hello.client_instance()),
      sender_{.rank = hello.rank(), .coordinates = hello.coordinates(), .model = hello.model()},
      on_ack_(std::move(on_ack)),
      on_end_(std::move(on_end)) {}

void RankStream::Admit(const RunState::Admitted& admitted, const v1::HelloAck& hello_ack) {
  attempt_ = admitted.attempt;
  committed_at_open_ = admitted.last_committed_seq;
  snapshots_ = admitted.snapshots;
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
  work.report = Summarised(report, names, &rejections);
  work.rejections = std::move(rejections);
  return pipeline_->Enqueue(std::move(work));
}

model::ShardReport RankStream::Summarised(const v1::Report& report, const StreamNames& names,
                                          std::vector<v1::Rejection>* rejections) {
  model::ShardReport out;
  out.set_rank(sender_.rank);
  out.set_client_instance(client_instance_);
  out.set_seq(report.seq());
  out.set_step(report.step());
  out.set_time_unix_ns(report.time_unix_ns());
  out.set_last_of_step(report.last_of_step());
  out.set_skipped(report.skipped());
  out.set_eval(report.phase() == v1::PHASE_EVAL);
  // Known to be committed, or a repeated forward: acknowledged, but nothing may come of it. (A
  // repeated weight payload would also move the base of the next update.)
  if (report.recomputed()) ++snapshots_->stats->reports_recomputed;
  if (report.recomputed() || report.seq() <= committed_at_open_) return out;

  model::StepShards* shards = out.mutable_shards();
  if (report.tokens() > 0) {
    shards->set_tokens(report.tokens());
    model::Source* source = shards->add_token_sources();
    source->set_id(DerivedTokenShard(sender_.coordinates));
    source->set_fingerprint(report.tokens());
  }
  const SummariseContext context{.sender = sender_, .names = names, .step = report.step()};
  for (int i = 0; i < report.summaries_size(); ++i) {
    const v1::Summary& summary = report.summaries(i);
    if (summary.has_event()) {
      *out.add_events() = summary.event();
      continue;
    }
    if (summary.payload_case() == v1::Summary::PAYLOAD_NOT_SET) continue;  // ingest cleared it
    MutexLock lock(&snapshots_->mutex);
    const size_t bytes_before = snapshots_->snapshots.bytes();
    const absl::Status status = Summarise(summary, context, &snapshots_->snapshots, shards);
    // Wraps around where a snapshot went, as the sum does.
    snapshots_->stats->snapshot_bytes += snapshots_->snapshots.bytes() - bytes_before;
    if (!status.ok()) rejections->push_back(Reject(report.seq(), i, status));
  }
  return out;
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
