#include "proxy/select.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "proxy/medoids.h"

namespace foreshock::proxy {
namespace {

constexpr double kRepresentativeCost = 1.1;  // of the medoid's

bool Clusters(const std::string& selector) {
  return selector == "cluster" || selector == "router-only";
}
bool NeedsCalibration(const std::string& selector) {
  return selector != "router-only" && selector != "random" && selector != "first-k";
}

// The distances of the seen experts, all views fused.
absl::StatusOr<Matrix> Fuse(int layer, const Matrix& router_view, const LayerStats* stats,
                            const SelectOptions& options, const std::vector<int>& seen,
                            LayerPlan* plan, std::vector<std::string>* warnings) {
  const Eigen::Index experts = router_view.rows();
  Matrix fused = Matrix::Zero(experts, experts);
  double weights = 0;
  const auto add = [&](const char* view, const Matrix& distances, double weight) {
    const double scale = MedianDistance(distances, seen);
    plan->scales.emplace_back(view, scale);
    if (!(scale > 0)) {
      warnings->push_back(
          absl::StrCat("layer ", layer, ": view ", view, " has a median of 0 and is left out"));
      return;
    }
    fused += weight / scale * distances;
    weights += weight;
  };
  const bool alone = options.selector == "router-only";
  if (alone || options.router_weight > 0) {
    add("router", router_view, alone ? 1 : options.router_weight);
  }
  if (!alone && options.coactivation_weight > 0) {
    if (!stats->coactivation) {
      return absl::InvalidArgumentError(absl::StrCat(
          "calibration: layer ", layer, " has no coactivation; leave the view out with weight 0"));
    }
    add("coactivation", CoactivationDistances(*stats->coactivation, options.coactivation),
        options.coactivation_weight);
  }
  if (!alone && options.context_weight > 0) {
    if (!stats->input_sum || !stats->expert_input_sum) {
      return absl::InvalidArgumentError(
          absl::StrCat("calibration: layer ", layer,
                       " has no input_sum or expert_input_sum; leave the context view out with "
                       "weight 0"));
    }
    add("context", ContextDistances(*stats), options.context_weight);
  }
  if (weights > 0) fused /= weights;
  return fused;
}

template <typename Source>
Matrix Sub(const Source& matrix, const std::vector<int>& members) {
  const auto size = static_cast<Eigen::Index>(members.size());
  Matrix part(size, size);
  for (Eigen::Index a = 0; a < size; ++a) {
    for (Eigen::Index b = 0; b < size; ++b) {
      part(a, b) = matrix(members[static_cast<size_t>(a)], members[static_cast<size_t>(b)]);
    }
  }
  return part;
}

Vector SubVector(const Vector& vector, const std::vector<int>& members) {
  Vector part(static_cast<Eigen::Index>(members.size()));
  for (size_t a = 0; a < members.size(); ++a) {
    part(static_cast<Eigen::Index>(a)) = vector(members[a]);
  }
  return part;
}

int NearestOf(const Matrix& distances, int expert, const std::vector<int>& medoids) {
  size_t best = 0;
  for (size_t m = 1; m < medoids.size(); ++m) {
    if (distances(expert, medoids[m]) < distances(expert, medoids[best])) best = m;
  }
  return medoids[best];
}

// Clusters one group of experts; appends to the plan's kept and medoids and sets `medoid_of`.
void ClusterGroup(const std::vector<int>& group, const Matrix& fused, const Matrix& router_view,
                  const Vector& frequency, const std::vector<bool>& is_seen, int keep,
                  const SelectOptions& options, std::vector<std::pair<int, int>>* chosen,
                  std::vector<int>* medoid_of) {
  std::vector<int> seen;
  std::vector<int> unseen;
  for (const int e : group) (is_seen[static_cast<size_t>(e)] ? seen : unseen).push_back(e);
  std::vector<int> medoids;
  if (static_cast<int>(seen.size()) <= keep) {
    medoids = seen;
    // Only the router's view is left; the farthest from what is kept comes next.
    while (static_cast<int>(medoids.size()) < keep) {
      int best = -1;
      double farthest = -1;
      for (const int e : unseen) {
        if (std::find(medoids.begin(), medoids.end(), e) != medoids.end()) continue;
        const double distance =
            medoids.empty() ? 0 : router_view(e, NearestOf(router_view, e, medoids));
        if (distance > farthest) {
          farthest = distance;
          best = e;
        }
      }
      medoids.push_back(best);
    }
  } else {
    const Vector part = SubVector(frequency, seen);
    const Vector weight = options.weigh_by_frequency ? part : Vector::Ones(part.size());
    for (const int m : Medoids(Sub(fused, seen), weight, part, keep)) {
      medoids.push_back(seen[static_cast<size_t>(m)]);
    }
  }
  for (const int e : group) {
    const auto at = static_cast<size_t>(e);
    if (std::find(medoids.begin(), medoids.end(), e) != medoids.end()) {
      (*medoid_of)[at] = e;
    } else {
      (*medoid_of)[at] = NearestOf(is_seen[at] ? fused : router_view, e, medoids);
    }
  }
  for (const int medoid : medoids) {
    std::vector<int> members;
    for (const int e : seen) {
      if ((*medoid_of)[static_cast<size_t>(e)] == medoid) members.push_back(e);
    }
    const auto cost = [&](int centre) {
      double sum = 0;
      for (const int e : members) {
        sum += (options.weigh_by_frequency ? frequency(e) : 1) * fused(e, centre);
      }
      return sum;
    };
    int representative = medoid;
    for (const int e : members) {
      if (!options.medoid_represents && frequency(e) > frequency(representative) &&
          cost(e) <= kRepresentativeCost * cost(medoid)) {
        representative = e;
      }
    }
    chosen->emplace_back(representative, medoid);
  }
}

absl::StatusOr<Vector> Score(int layer, const LayerStats& stats, const std::string& selector) {
  const auto missing = [&](const char* name) {
    return absl::InvalidArgumentError(absl::StrCat("calibration: layer ", layer, " has no ", name,
                                                   ", which selector ", selector, " needs"));
  };
  if (selector == "frequency") return stats.frequency;
  if (selector == "gate-mass") {
    if (!stats.gate_sum) return missing("gate_sum");
    return *stats.gate_sum;
  }
  const auto& sums = selector == "reap" ? stats.gated_norm_sum : stats.expert_norm_sum;
  if (!sums) return missing(selector == "reap" ? "gated_norm_sum" : "expert_norm_sum");
  return Vector(sums->array() / stats.frequency.array().max(1));
}

// A uniform number below `limit`, the same on every machine.
uint64_t Below(uint64_t limit, std::mt19937_64* random) {
  const uint64_t end = UINT64_MAX - UINT64_MAX % limit;
  uint64_t value = (*random)();
  while (value >= end) value = (*random)();
  return value % limit;
}

}  // namespace

std::vector<std::string> Selectors() {
  return {"cluster", "router-only",     "frequency", "gate-mass",
          "reap",    "activation-norm", "random",    "first-k"};
}

absl::StatusOr<LayerPlan> SelectLayer(int layer, const Matrix& router, const LayerStats* stats,
                                      int groups, const SelectOptions& options,
                                      std::vector<std::string>* warnings) {
  LayerPlan plan;
  plan.layer = layer;
  const auto experts = static_cast<int>(router.rows());
  const bool clusters = Clusters(options.selector);
  const bool calibrated = NeedsCalibration(options.selector);
  const Vector frequency = calibrated ? stats->frequency : Vector::Zero(experts);
  std::vector<bool> is_seen(static_cast<size_t>(experts), true);
  std::vector<int> seen;
  for (int e = 0; e < experts; ++e) {
    if (calibrated && frequency(e) < static_cast<double>(options.seen_least)) {
      is_seen[static_cast<size_t>(e)] = false;
      plan.unseen.push_back(e);
    } else {
      seen.push_back(e);
    }
  }
  if (static_cast<int>(plan.unseen.size()) * 20 > experts) {
    warnings->push_back(absl::StrCat("layer ", layer, ": ", plan.unseen.size(), " of ", experts,
                                     " experts have fewer than ", options.seen_least,
                                     " tokens; calibrate with more text"));
  }
  Matrix router_view;
  Matrix fused;
  Vector score;
  if (clusters) {
    router_view = RouterDistances(router, options.centre_router);
    FORESHOCK_ASSIGN_OR_RETURN(fused,
                               Fuse(layer, router_view, stats, options, seen, &plan, warnings));
  } else if (calibrated) {
    FORESHOCK_ASSIGN_OR_RETURN(score, Score(layer, *stats, options.selector));
  }
  std::mt19937_64 random(options.seed + static_cast<uint64_t>(layer));
  std::vector<std::pair<int, int>> chosen;  // representative, medoid
  std::vector<int> medoid_of(static_cast<size_t>(experts), -1);
  const int each = options.keep / groups;
  for (int g = 0; g < groups; ++g) {
    std::vector<int> group(static_cast<size_t>(experts / groups));
    std::iota(group.begin(), group.end(), g * (experts / groups));
    if (clusters) {
      ClusterGroup(group, fused, router_view, frequency, is_seen, each, options, &chosen,
                   &medoid_of);
      continue;
    }
    if (calibrated) {
      std::vector<int> ranked;
      for (const int at : Ranking(SubVector(score, group), SubVector(frequency, group))) {
        ranked.push_back(group[static_cast<size_t>(at)]);
      }
      group = ranked;
    } else if (options.selector == "random") {
      for (size_t i = 0; i < group.size(); ++i) {
        std::swap(group[i], group[i + Below(group.size() - i, &random)]);
      }
    }
    for (int i = 0; i < each; ++i) chosen.emplace_back(group[static_cast<size_t>(i)], -1);
  }
  std::sort(chosen.begin(), chosen.end());
  for (const auto& [representative, medoid] : chosen) {
    plan.kept.push_back(representative);
    if (clusters) plan.medoids.push_back(medoid);
  }
  for (int e = 0; clusters && e < experts; ++e) {
    const auto at =
        std::find(plan.medoids.begin(), plan.medoids.end(), medoid_of[static_cast<size_t>(e)]);
    plan.cluster.push_back(static_cast<int>(at - plan.medoids.begin()));
  }
  if (stats != nullptr && stats->probability_sum && stats->tokens > 0) {
    double sum = 0;
    for (const int e : plan.kept) sum += (*stats->probability_sum)(e);
    plan.kept_probability = std::min(1.0, sum / stats->tokens);
  }
  return plan;
}

absl::StatusOr<Plan> Select(const Checkpoint& checkpoint, const Model& model,
                            const Calibration& calibration, const SelectOptions& options) {
  const KeepCheck check = CheckKeep(model, options.keep, options.expert_parallel);
  if (!check.errors.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(check.errors, "; "));
  }
  if (NeedsCalibration(options.selector) && calibration.sha256().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("selector ", options.selector,
                     " needs a calibration: give --calibration FILE, or choose router-only, random "
                     "or first-k"));
  }
  Plan plan;
  plan.model_type = model.model_type;
  plan.experts = model.experts;
  plan.keep = options.keep;
  plan.top_k = model.top_k;
  plan.selector = options.selector;
  plan.source_sha256 = checkpoint.sha256;
  plan.calibration_sha256 = calibration.sha256();
  plan.warnings = check.warnings;
  plan.settings = {{"groups", model.groups}};
  if (Clusters(options.selector)) {
    const char* forms[] = {"profile", "raw", "direct", "jensen-shannon"};
    plan.settings["router_centre"] = options.centre_router;
    plan.settings["weigh_by_frequency"] = options.weigh_by_frequency;
    plan.settings["representative"] = options.medoid_represents ? "medoid" : "frequent";
    if (options.selector == "cluster") {
      plan.settings["weights"] = {{"router", options.router_weight},
                                  {"coactivation", options.coactivation_weight},
                                  {"context", options.context_weight}};
      plan.settings["coactivation"] = forms[static_cast<int>(options.coactivation)];
    }
  }
  if (NeedsCalibration(options.selector)) plan.settings["seen_least"] = options.seen_least;
  if (options.selector == "random") {
    plan.settings["generator"] = "mt19937_64, seeded with seed + layer";
    plan.settings["seed"] = options.seed;
  }
  for (const MoeLayer& moe : model.moe) {
    const bool calibrated = NeedsCalibration(options.selector);
    if (calibrated && moe.prediction && !calibration.Has(moe.layer) && !plan.layers.empty()) {
      LayerPlan same = plan.layers.back();
      same.layer = moe.layer;
      plan.warnings.push_back(absl::StrCat("layer ", moe.layer,
                                           " predicts further tokens and is not in the "
                                           "calibration: it takes the plan of layer ",
                                           plan.layers.back().layer));
      plan.layers.push_back(std::move(same));
      continue;
    }
    const Shard& shard = checkpoint.shards[moe.router_shard];
    FORESHOCK_ASSIGN_OR_RETURN(const Matrix router,
                               ReadMatrix(shard.file, shard.header.tensors[moe.router_tensor]));
    LayerStats stats;
    const bool counted = calibrated || calibration.Has(moe.layer);
    if (counted) {
      FORESHOCK_ASSIGN_OR_RETURN(stats, calibration.Load(moe.layer));
    }
    FORESHOCK_ASSIGN_OR_RETURN(
        LayerPlan layer, SelectLayer(moe.layer, router, counted ? &stats : nullptr, model.groups,
                                     options, &plan.warnings));
    plan.layers.push_back(std::move(layer));
  }
  return plan;
}

}  // namespace foreshock::proxy
