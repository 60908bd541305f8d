#include "daemon/pipeline/attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/indicators/finish.h"
#include "google/protobuf/util/message_differencer.h"

namespace foreshock::pipeline {

Attempt::Attempt(const std::string& run, model::AttemptRow attempt, const v1::ModelShape& shape,
                 const Options& options, PipelineStats* stats)
    : row(std::move(attempt)),
      model(shape),
      open_steps(options.open_steps, row.world_size()),
      speakers(run, row.number(), options.snapshots, stats),
      run_(run) {}

absl::Status Attempt::Load(const store::Store& store, absl::Time now) {
  std::vector<model::ShardReport> reports;
  FORESHOCK_RETURN_IF_ERROR(
      store.OpenReports(run_, number(), [&reports](const model::ShardReport& report) {
        reports.push_back(report);
        return true;
      }));
  if (row.has_last_step()) {
    const int64_t settled = reports.empty() ? row.last_step() : reports.front().step() - 1;
    settled_written_ = settled;
    open_steps.RestoreClosed(row.last_step(), settled);
  }
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::RankRow> ranks, store.Ranks(run_, number()));
  for (model::RankRow& rank : ranks) speakers.Restore(std::move(rank));
  uint64_t reports_sent = 0;  // by the process that sent most
  for (const auto& [number, rank] : speakers.ranks()) {
    int64_t done_through = -1;
    for (const auto& [instance, process] : rank.processes) {
      reports_sent = std::max(reports_sent, process.row.committed_seq());
      if (process.row.has_last_step()) {
        done_through = std::max(done_through, process.row.last_step());
      }
    }
    open_steps.RestoreRank(number, done_through, rank.outcome != v1::OUTCOME_UNSPECIFIED);
  }
  // No more steps can have closed than a process sent reports.
  if (row.has_last_step()) {
    open_steps.RestorePace(row.first_step(), static_cast<int64_t>(reports_sent));
  }
  for (const model::ShardReport& report : reports) open_steps.RestoreReport(report, now);
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::CoactivationRow> coactivation,
                             store.Coactivation(run_, number()));
  for (model::CoactivationRow& layer : coactivation) {
    const uint32_t number = layer.layer();
    coactivation_[number] = std::move(layer);
  }
  loaded = true;
  return absl::OkStatus();
}

absl::Status Attempt::Check(const v1::Hello& hello) const {
  if (row.world_size() != hello.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "world_size is ", hello.world_size(), ", but other ranks of launch '", hello.launch_id(),
        "' said ", row.world_size(), "; a launch has one world size"));
  }
  if (hello.has_model() && model.ByteSizeLong() != 0 &&
      !google::protobuf::util::MessageDifferencer::Equals(hello.model(), model)) {
    return absl::InvalidArgumentError(
        absl::StrCat("model shape {", hello.model().ShortDebugString(), "} differs from {",
                     model.ShortDebugString(), "} of other ranks of launch '", hello.launch_id(),
                     "'; give the whole model's shape"));
  }
  return absl::OkStatus();
}

bool Attempt::ended() const {
  return row.state() == v1::RUN_STATE_FINISHED || row.state() == v1::RUN_STATE_FAILED ||
         row.state() == v1::RUN_STATE_PREEMPTED;
}

v1::RunState Attempt::state() const {
  if (ended()) return row.state();
  return speakers.connected() > 0 ? v1::RUN_STATE_LIVE : v1::RUN_STATE_SILENT;
}

void Attempt::SetState(v1::RunState state, store::StoreBatch* batch) {
  row.set_state(state);
  batch->attempts.push_back({run_, row});
}

void Attempt::Compute(const merge::SettledStep& step, model::ClosedStep* closed,
                      store::StoreBatch* batch) {
  indicators::Finish(step.merged->train(), model, /*eval=*/false, &history, closed);
  if (step.merged->has_eval()) {
    indicators::Finish(step.merged->eval(), model, /*eval=*/true, &history, closed);
  }
  if (step.row.late) return;
  if (!row.has_first_step()) row.set_first_step(step.row.step);
  row.set_last_step(step.row.step);
  AddCoactivation(step.merged->train(), batch);
}

void Attempt::ForgetSettled(store::StoreBatch* batch) {
  const std::optional<int64_t> settled = open_steps.settled_through();
  if (!settled.has_value() || settled == settled_written_) return;
  batch->settled_steps.push_back({run_, number(), *settled});
  settled_written_ = settled;
}

void Attempt::AddCoactivation(const model::StepShards& merged, store::StoreBatch* batch) {
  for (const model::CoactivationShard& shard : merged.coactivation()) {
    model::CoactivationRow& sum = coactivation_[shard.layer()];
    if (sum.pair_counts_size() != shard.pair_counts_size()) sum.Clear();  // the first, or E changed
    const bool first = sum.tokens() == 0;
    sum.set_layer(shard.layer());
    sum.set_experts(shard.experts());
    sum.set_tokens(sum.tokens() + shard.tokens());
    sum.mutable_pair_counts()->Resize(shard.pair_counts_size(), 0);
    for (int i = 0; i < shard.pair_counts_size(); ++i) {
      sum.set_pair_counts(i, sum.pair_counts(i) + shard.pair_counts(i));
    }
    // The gate mass of the sum is known only where that of every part was.
    if (first) sum.mutable_gate_mass()->Resize(shard.gate_mass_size(), 0);
    if (sum.gate_mass_size() != shard.gate_mass_size()) sum.clear_gate_mass();
    for (int e = 0; e < sum.gate_mass_size(); ++e) {
      sum.set_gate_mass(e, sum.gate_mass(e) + shard.gate_mass(e));
    }
    batch->coactivation.push_back({run_, number(), sum});
  }
}

}  // namespace foreshock::pipeline
