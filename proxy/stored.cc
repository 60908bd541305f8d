#include "proxy/stored.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/store.h"

namespace foreshock::proxy {
namespace {

absl::StatusOr<LayerStats> StatsOf(const model::CoactivationRow& row, const Model& model) {
  const int64_t experts = model.experts;
  if (row.experts() != static_cast<uint64_t>(experts)) {
    return absl::InvalidArgumentError(absl::StrCat("RouterCoactivation is of ", row.experts(),
                                                   " experts, the checkpoint has ", experts));
  }
  if (row.pair_counts_size() != experts * (experts - 1) / 2) {
    return absl::DataLossError(absl::StrCat("the store has ", row.pair_counts_size(),
                                            " pair counts, must have ",
                                            experts * (experts - 1) / 2));
  }
  Matrix pairs = Matrix::Zero(experts, experts);
  auto pair = row.pair_counts().begin();
  for (int i = 1; i < experts; ++i) {
    for (int j = 0; j < i; ++j, ++pair) {
      pairs(i, j) = pairs(j, i) = static_cast<double>(*pair);
    }
  }
  std::optional<Vector> gates;
  if (row.gate_mass_size() == experts) {
    gates = Eigen::Map<const Vector>(row.gate_mass().data(), experts);
  }
  return StatsFromPairs(pairs, static_cast<double>(row.tokens()), std::move(gates), model.top_k);
}

// What a user gets instead.
absl::Status NothingKept(const store::Store& store, const std::string& run, const std::string& of) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::SeriesKey> shares,
                             store.Series(run, {.indicator = "load.share"}));
  return absl::NotFoundError(absl::StrCat(
      of, " has no sums of RouterCoactivation in the store: ",
      shares.empty()
          ? "its ranks pushed no RouterLoad either"
          : "its ranks pushed RouterLoad, but of that the store keeps the shares of each "
            "step (load.share), not the counts",
      ". The ranks have to push RouterCoactivation (docs/indicators/router.md), or the run's "
      "captures "
      "have to be there (--from-captures), or a pass has to be made (foreshock.calibrate); "
      "selectors "
      "router-only, random and first-k need no calibration"));
}

}  // namespace

absl::StatusOr<Pushed> GatherStored(const std::string& directory, const std::string& run,
                                    std::optional<uint32_t> attempt, const Model& model) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                             store::OpenStore({.directory = directory, .read_only = true}));
  FORESHOCK_RETURN_IF_ERROR(store->Run(run).status());
  if (model.top_k < 2) {
    return absl::InvalidArgumentError(
        "the checkpoint has top-k 1: no experts are chosen together, so the store has no counts of "
        "choices; take --from-captures");
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, store->Attempts(run));
  std::vector<model::CoactivationRow> rows;
  uint32_t taken = 0;
  for (const model::AttemptRow& one : attempts) {
    if (attempt.has_value() && one.number() != *attempt) continue;
    FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::CoactivationRow> kept,
                               store->Coactivation(run, one.number()));
    if (kept.empty()) continue;
    rows = std::move(kept);
    taken = one.number();
  }
  if (rows.empty()) {
    return NothingKept(*store, run,
                       attempt.has_value()
                           ? absl::StrCat("attempt ", *attempt, " of run '", run, "'")
                           : absl::StrCat("run '", run, "'"));
  }
  Pushed pushed;
  for (const MoeLayer& moe : model.moe) {
    bool found = false;
    for (const model::CoactivationRow& row : rows) {
      if (static_cast<int>(row.layer()) != moe.layer) continue;
      found = true;
      absl::StatusOr<LayerStats> stats = StatsOf(row, model);
      if (!stats.ok()) {
        return base::Annotate(stats.status(), absl::StrCat("run '", run, "', attempt ", taken,
                                                           ", layer ", moe.layer));
      }
      pushed.layers[moe.layer] = *std::move(stats);
    }
    if (!found) {
      pushed.warnings.push_back(
          absl::StrCat("layer ", moe.layer, ": the store has no sums of RouterCoactivation"));
    }
  }
  if (pushed.layers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "run '", run, "' pushed RouterCoactivation of other layers than the checkpoint's"));
  }
  if (attempts.size() > 1 && !attempt.has_value()) {
    pushed.warnings.push_back(absl::StrCat("run '", run, "' has ", attempts.size(),
                                           " attempts; the sums are those of attempt ", taken));
  }
  return pushed;
}

}  // namespace foreshock::proxy
