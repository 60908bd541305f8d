// One attempt of a run: its row, who speaks for it, its open steps and what its indicators need of
// the steps before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/indicators/history.h"
#include "daemon/merge/open_steps.h"
#include "daemon/model/rows.pb.h"
#include "daemon/pipeline/speakers.h"
#include "daemon/pipeline/stats.h"
#include "daemon/store/store.h"

namespace foreshock::pipeline {

// Only on the writer's thread.
class Attempt {
 public:
  struct Options {
    merge::OpenSteps::Options open_steps;
    indicators::Snapshots::Options snapshots;  // per rank
  };

  // `stats` outlives it.
  Attempt(const std::string& run, model::AttemptRow row, const v1::ModelShape& model,
          const Options& options, PipelineStats* stats);

  // Into a fresh object: reads who spoke, the marks, the open statistics and the sums from the
  // store. `now` is when open steps begin to wait.
  absl::Status Load(const store::Store& store, absl::Time now);

  // Whether the model shape or the world size of a hello of this launch contradicts it.
  absl::Status Check(const v1::Hello& hello) const;

  // How it stands: over, live, or silent.
  v1::RunState state() const;
  bool ended() const;
  void SetState(v1::RunState state, store::StoreBatch* batch);

  // A step that has closed, computed: its points, findings and what is undefined. What is added up
  // over closed steps goes into the batch.
  void Compute(const merge::SettledStep& step, model::ClosedStep* closed, store::StoreBatch* batch);

  // Whether nobody speaks for it and nothing of it is open: all of it is in the store.
  bool idle() const { return speakers.streams() == 0 && !open_steps.has_work(); }
  // Whether its ranks are in memory; if not, Load brings them back.
  bool loaded = true;

  // Says in the batch which statistics may be forgotten.
  void ForgetSettled(store::StoreBatch* batch);

  uint32_t number() const { return row.number(); }

  model::AttemptRow row;
  const v1::ModelShape model;
  merge::OpenSteps open_steps;
  Speakers speakers;
  indicators::History history;

 private:
  void AddCoactivation(const model::StepShards& merged, store::StoreBatch* batch);

  const std::string run_;
  std::map<uint32_t, model::CoactivationRow> coactivation_;  // by layer, sum over closed steps
  std::optional<int64_t> settled_written_;
};

using Attempts = std::map<uint32_t, Attempt>;  // by number

}  // namespace foreshock::pipeline
