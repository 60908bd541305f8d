#include "daemon/pipeline/shard_report.h"

#include "absl/status/status.h"
#include "daemon/indicators/sources.h"

namespace foreshock::pipeline {
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

model::ShardReport SummariseReport(const v1::Report& report, const model::StreamNames& names,
                                   const Reporter& reporter,
                                   std::vector<v1::Rejection>* rejections) {
  SharedSnapshots& shared = *reporter.snapshots;
  model::ShardReport out;
  out.set_rank(reporter.sender.rank);
  out.set_client_instance(reporter.client_instance);
  out.set_seq(report.seq());
  out.set_step(report.step());
  out.set_time_unix_ns(report.time_unix_ns());
  out.set_last_of_step(report.last_of_step());
  out.set_skipped(report.skipped());
  out.set_eval(report.phase() == v1::PHASE_EVAL);
  // Known to be committed, or a repeated forward: acknowledged, but nothing may come of it. (A
  // repeated weight payload would also move the base of the next update.)
  if (report.recomputed()) ++shared.stats->reports_recomputed;
  if (report.recomputed() || report.seq() <= reporter.committed_seq) return out;

  model::StepShards* shards = out.mutable_shards();
  if (report.tokens() > 0) {
    shards->set_tokens(report.tokens());
    model::Source* source = shards->add_token_sources();
    source->set_id(indicators::DerivedTokenShard(reporter.sender.coordinates));
    source->set_fingerprint(report.tokens());
  }
  const indicators::SummariseContext context{
      .sender = reporter.sender, .names = names, .step = report.step()};
  for (int i = 0; i < report.summaries_size(); ++i) {
    const v1::Summary& summary = report.summaries(i);
    if (summary.has_event()) {
      *out.add_events() = summary.event();
      continue;
    }
    if (summary.payload_case() == v1::Summary::PAYLOAD_NOT_SET) continue;  // ingest cleared it
    base::MutexLock lock(&shared.mutex);
    const size_t bytes_before = shared.snapshots.bytes();
    const absl::Status status = indicators::Summarise(summary, context, &shared.snapshots, shards);
    // Wraps around where a snapshot went, as the sum does.
    shared.stats->snapshot_bytes += shared.snapshots.bytes() - bytes_before;
    if (!status.ok()) rejections->push_back(Reject(report.seq(), i, status));
  }
  return out;
}

}  // namespace foreshock::pipeline
