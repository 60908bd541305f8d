#include "daemon/backtest/fidelity.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/backtest/curve_stats.h"
#include "daemon/base/status_macros.h"

namespace foreshock::backtest {
namespace {

constexpr size_t kSmoothing = 5;

// What an indicator did in a faulty run, as its alerts say.
struct Move {
  int64_t step = 0;
  std::set<uint32_t> layers{};
  bool all_layers = false;
};

// Alerts of a run that count, by name.
struct FiredAlerts {
  std::map<std::string, const v1::Alert*> alerts;  // the first of each rule
  std::map<std::string, Move> moves;               // by indicator
  std::string fault;
  std::optional<int64_t> onset;

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, alert] : alerts) all.push_back(name);
    return all;
  }
};

void NoteMove(const std::string& indicator, int64_t step,
              const google::protobuf::RepeatedField<uint32_t>& layers, bool all_layers,
              FiredAlerts* fired) {
  if (indicator.empty()) return;
  const auto [found, added] = fired->moves.try_emplace(indicator, Move{.step = step});
  Move& move = found->second;
  move.step = std::min(move.step, step);
  move.layers.insert(layers.begin(), layers.end());
  move.all_layers = move.all_layers || all_layers || layers.empty();
}

// Of two first warnings the one that people are told of: the earlier, then the one with a name.
bool TellsMore(const v1::Alert& a, const v1::Alert& b) {
  if (a.firing_step() != b.firing_step()) return a.firing_step() < b.firing_step();
  const auto named = [](const v1::Alert& alert) {
    return !alert.fault().empty() && alert.fault() != "unknown";
  };
  return named(a) && !named(b);
}

FiredAlerts FiredIn(const RecordedRun& run, const std::string& severity,
                    std::optional<int64_t> from) {
  FiredAlerts fired;
  const v1::Alert* first = nullptr;
  for (const v1::Alert& alert : run.alerts) {
    if (!alert.has_firing_step() ||
        rules::SeverityRank(alert.severity()) < rules::SeverityRank(severity) ||
        alert.firing_step() < from.value_or(alert.firing_step())) {
      continue;
    }
    const v1::Alert*& known = fired.alerts[alert.rule()];
    if (known == nullptr || alert.firing_step() < known->firing_step()) known = &alert;
  }
  for (const auto& [name, alert] : fired.alerts) {
    if (first == nullptr || TellsMore(*alert, *first)) first = alert;
    fired.onset = std::min(fired.onset.value_or(alert->firing_step()), alert->firing_step());
  }
  if (first != nullptr) fired.fault = first->fault();
  return fired;
}

// What fires in the faulty run and not in the healthy one, and what that rests on.
FiredAlerts Response(const RecordedRun& fault, const RecordedRun& healthy,
                     const FidelityInput& input) {
  FiredAlerts fired;
  const FiredAlerts without = FiredIn(healthy, input.severity, std::nullopt);
  RecordedRun rest;
  for (const v1::Alert& alert : fault.alerts) {
    if (without.alerts.count(alert.rule()) == 0) rest.alerts.push_back(alert);
  }
  const FiredAlerts found = FiredIn(rest, input.severity, input.fault_from);
  fired.fault = found.fault;
  fired.onset = found.onset;
  for (const v1::Alert& alert : fault.alerts) {
    const auto place = found.alerts.find(alert.rule());
    if (place == found.alerts.end() || place->second->id() != alert.id()) continue;
    fired.alerts[alert.rule()] = &alert;
    bool evident = false;
    for (const v1::Evidence& evidence : alert.evidence()) {
      if (!evidence.supports() || !evidence.has_step()) continue;
      if (evidence.step() < input.fault_from.value_or(evidence.step())) continue;
      NoteMove(evidence.indicator(), evidence.step(), evidence.layers(), false, &fired);
      evident = true;
    }
    if (!evident) {
      NoteMove(alert.indicator(), alert.pending_step(), alert.layers(), alert.all_layers(), &fired);
    }
  }
  return fired;
}

bool IsOf(absl::string_view pattern, absl::string_view indicator) {
  return absl::ConsumeSuffix(&pattern, "*") ? absl::StartsWith(indicator, pattern)
                                            : indicator == pattern;
}

// Steps that two curves have in common, with the value of each.
template <typename Visit>
void AtCommonSteps(const Curve& a, const Curve& b, const Visit& visit) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].step < b[j].step) {
      ++i;
    } else if (b[j].step < a[i].step) {
      ++j;
    } else {
      visit(a[i].step, a[i].value, b[j].value);
      ++i;
      ++j;
    }
  }
}

// Whether full and proxy model share what the series is about: they have other experts.
bool IsShared(const model::SeriesKey& key) {
  return key.unit != model::Unit::kExpert && key.unit != model::Unit::kRank;
}

Curve ResponseOf(const std::string& indicator, const std::vector<uint32_t>& layers,
                 const RecordedRun& fault, const RecordedRun& healthy, int64_t first_step) {
  struct Sum {
    double value = 0;
    double count = 0;
  };
  std::map<int64_t, Sum> sums;
  for (auto it = fault.series.lower_bound({indicator, model::kNoLayer, model::Unit::kNone, 0, ""});
       it != fault.series.end() && it->first.indicator == indicator; ++it) {
    const model::SeriesKey& key = it->first;
    const auto other = healthy.series.find(key);
    if (other == healthy.series.end() || !IsShared(key)) continue;
    if (!layers.empty() && key.layer >= 0 &&
        std::find(layers.begin(), layers.end(), static_cast<uint32_t>(key.layer)) == layers.end()) {
      continue;
    }
    AtCommonSteps(it->second, other->second, [&](int64_t step, double ill, double well) {
      if (step < first_step) return;
      sums[step].value += ill - well;
      ++sums[step].count;
    });
  }
  Curve response;
  for (const auto& [step, sum] : sums) response.push_back({step, sum.value / sum.count});
  return RunningMedian(response, kSmoothing);
}

// The most steps that one series has in both runs, and the last of them.
struct Overlap {
  size_t series = 0;
  size_t steps = 0;
  int64_t first = 0;
  int64_t last = 0;
};

Overlap OverlapOf(const RecordedRun& a, const RecordedRun& b) {
  Overlap overlap;
  for (const auto& [key, curve] : a.series) {
    const auto other = b.series.find(key);
    if (other == b.series.end()) continue;
    ++overlap.series;
    std::vector<int64_t> steps;
    AtCommonSteps(curve, other->second,
                  [&](int64_t step, double, double) { steps.push_back(step); });
    if (steps.size() <= overlap.steps) continue;
    overlap.steps = steps.size();
    overlap.first = steps.front();
    overlap.last = steps.back();
  }
  return overlap;
}

absl::StatusOr<Overlap> Comparable(const RecordedRun& a, const RecordedRun& b) {
  const Overlap overlap = OverlapOf(a, b);
  if (overlap.series == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the runs ", a.name, " and ", b.name,
        " have no series of the same indicator, layer and unit: they cannot be compared"));
  }
  if (overlap.steps < kFidelitySteps) {
    return absl::InvalidArgumentError(absl::StrCat("the runs ", a.name, " and ", b.name, " have ",
                                                   overlap.steps, " steps in common; at least ",
                                                   kFidelitySteps, " are needed"));
  }
  return overlap;
}

std::string Listed(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : absl::StrJoin(names, ", ");
}

std::vector<std::string> Without(const std::vector<std::string>& all,
                                 const std::vector<std::string>& some) {
  std::vector<std::string> rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

Criterion TypeOf(const FiredAlerts& full, const FiredAlerts& proxy) {
  Criterion type{.name = "type"};
  if (full.alerts.empty()) {
    type.reason =
        absl::StrCat("nothing fires in the full model because of the fault; in the proxy ",
                     Listed(proxy.names()));
    return type;
  }
  const std::vector<std::string> missing = Without(full.names(), proxy.names());
  const std::vector<std::string> extra = Without(proxy.names(), full.names());
  if (missing.empty() && extra.empty() && full.fault == proxy.fault) {
    type.outcome = Outcome::kPass;
    type.reason = absl::StrCat("both fire ", Listed(full.names()));
    if (!full.fault.empty()) absl::StrAppend(&type.reason, " and name ", full.fault);
    return type;
  }
  type.outcome = Outcome::kFail;
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back(absl::StrCat("only the full model: ", Listed(missing)));
  if (!extra.empty()) parts.push_back(absl::StrCat("only the proxy: ", Listed(extra)));
  if (full.fault != proxy.fault) {
    parts.push_back(absl::StrCat("the full model names ", full.fault.empty() ? "none" : full.fault,
                                 " first, the proxy ", proxy.fault.empty() ? "none" : proxy.fault));
  }
  type.reason = absl::StrJoin(parts, "; ");
  return type;
}

Criterion QuietOf(const FidelityInput& input) {
  const auto full = FiredIn(*input.full_healthy, input.severity, std::nullopt).names();
  const auto proxy = FiredIn(*input.proxy_healthy, input.severity, std::nullopt).names();
  const std::vector<std::string> extra = Without(proxy, full);
  return {.name = "quiet",
          .outcome = extra.empty() ? Outcome::kPass : Outcome::kFail,
          .reason = extra.empty()
                        ? "the healthy proxy fires nothing that the healthy full model does not"
                        : absl::StrCat("only the healthy proxy fires ", Listed(extra))};
}

Criterion OrderOf(const FiredAlerts& full, const FiredAlerts& proxy) {
  Criterion order{.name = "order"};
  std::vector<std::string> names;
  std::vector<double> in_full;
  std::vector<double> in_proxy;
  for (const auto& [indicator, move] : full.moves) {
    const auto other = proxy.moves.find(indicator);
    if (other == proxy.moves.end()) continue;
    names.push_back(indicator);
    in_full.push_back(static_cast<double>(move.step));
    in_proxy.push_back(static_cast<double>(other->second.step));
  }
  if (names.size() < 2) {
    order.reason = absl::StrCat(names.empty() ? "no indicator" : "one indicator",
                                " moves in both: there is no order");
    return order;
  }
  if (names.size() >= 4) {
    const std::optional<double> tau = KendallTau(in_full, in_proxy);
    if (!tau.has_value()) {
      order.reason = "all indicators move at one step in one of them";
      return order;
    }
    order.outcome = *tau >= kOrderLeast ? Outcome::kPass : Outcome::kFail;
    order.reason = absl::StrFormat("Kendall's tau of the steps at which %d indicators move is %.2f",
                                   names.size(), *tau);
    return order;
  }
  order.outcome = Outcome::kPass;
  order.reason = absl::StrCat("the same order of ", absl::StrJoin(names, ", "));
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      // Two that move at one step in one of the models contradict no order.
      if ((in_full[i] - in_full[j]) * (in_proxy[i] - in_proxy[j]) >= 0) continue;
      order.outcome = Outcome::kFail;
      order.reason = absl::StrCat(names[in_full[i] < in_full[j] ? i : j], " moves before ",
                                  names[in_full[i] < in_full[j] ? j : i],
                                  " in the full model, after it in the proxy");
    }
  }
  return order;
}

Criterion OnsetOf(const FiredAlerts& full, const FiredAlerts& proxy, const FidelityInput& input,
                  int64_t first_step) {
  Criterion onset{.name = "onset", .required = false};
  if (!full.onset.has_value() || !proxy.onset.has_value()) {
    onset.reason =
        absl::StrCat("nothing fires in the ", full.onset.has_value() ? "proxy" : "full model");
    return onset;
  }
  const int64_t from = input.fault_from.value_or(first_step);
  // A fault that shows at once still takes the step in which it shows.
  const double in_full = static_cast<double>(std::max<int64_t>(*full.onset - from, 1));
  const double in_proxy = static_cast<double>(std::max<int64_t>(*proxy.onset - from, 1));
  const bool near = in_proxy <= kOnsetFactor * in_full && in_full <= kOnsetFactor * in_proxy;
  onset.outcome = near ? Outcome::kPass : Outcome::kFail;
  onset.reason =
      absl::StrCat("the first alert fires ", *full.onset - from, " steps after ",
                   input.fault_from.has_value() ? "the fault" : "the first step (no --fault-from)",
                   " in the full model, ", *proxy.onset - from, " in the proxy");
  return onset;
}

int SignOf(double value) { return (value > 0) - (value < 0); }

void JudgeResponse(IndicatorResponse* response) {
  if (response->full.size() < 2) {
    response->reason = "the full model has no series of it that the two runs share";
    return;
  }
  response->full_slope = SlopeOf(response->full);
  if (response->proxy.size() < 2) {
    response->reason = "the proxy has no series of it";
    response->direction = Outcome::kFail;
    response->trend = Outcome::kFail;
    return;
  }
  response->proxy_slope = SlopeOf(response->proxy);
  const int full_sign = SignOf(*response->full_slope);
  if (full_sign == 0) {
    response->reason = "the full model's response has no slope";
  } else {
    response->direction =
        SignOf(*response->proxy_slope) == full_sign ? Outcome::kPass : Outcome::kFail;
  }
  std::vector<double> full;
  std::vector<double> proxy;
  AtCommonSteps(response->full, response->proxy, [&](int64_t, double a, double b) {
    full.push_back(a);
    proxy.push_back(b);
  });
  response->points = full.size();
  const auto say = [response](const std::string& why) {
    absl::StrAppend(&response->reason, response->reason.empty() ? "" : "; ", why);
  };
  if (full.size() < kFidelitySteps) {
    say(absl::StrCat("trend of ", full.size(), " points: at least ", kFidelitySteps,
                     " are needed"));
    return;
  }
  response->spearman = Spearman(full, proxy);
  if (!response->spearman.has_value()) {
    say("trend of a constant response");
    return;
  }
  response->trend = *response->spearman >= kTrendLeast ? Outcome::kPass : Outcome::kFail;
}

// Of every judged indicator one verdict; those without one do not count.
Criterion OverIndicators(const std::string& name, const std::vector<IndicatorResponse>& all,
                         Outcome IndicatorResponse::*outcome) {
  Criterion criterion{.name = name};
  std::vector<std::string> passed;
  std::vector<std::string> failed;
  std::vector<std::string> undefined;
  for (const IndicatorResponse& one : all) {
    if (!one.judged) continue;
    (one.*outcome == Outcome::kPass   ? passed
     : one.*outcome == Outcome::kFail ? failed
                                      : undefined)
        .push_back(one.indicator);
  }
  if (!failed.empty()) {
    criterion.outcome = Outcome::kFail;
    criterion.reason = absl::StrCat("not that of ", Listed(failed));
    if (!passed.empty()) absl::StrAppend(&criterion.reason, "; that of ", Listed(passed));
  } else if (!passed.empty()) {
    criterion.outcome = Outcome::kPass;
    criterion.reason = absl::StrCat("that of ", Listed(passed));
  } else {
    criterion.reason = undefined.empty() ? "no indicator fires in the full model" : "";
  }
  if (!undefined.empty()) {
    absl::StrAppend(&criterion.reason, criterion.reason.empty() ? "" : "; ", "undefined for ",
                    Listed(undefined));
  }
  return criterion;
}

Outcome Overall(const std::vector<Criterion>& criteria) {
  Outcome overall = Outcome::kPass;
  for (const Criterion& criterion : criteria) {
    if (!criterion.required) continue;
    if (criterion.outcome == Outcome::kFail) return Outcome::kFail;
    // One fired indicator has no order; everything else must be known.
    if (criterion.outcome == Outcome::kUndefined && criterion.name != "order") {
      overall = Outcome::kUndefined;
    }
  }
  return overall;
}

}  // namespace

const std::vector<std::string>& FidelityIndicators() {
  static const auto* const kAll = new std::vector<std::string>{"rl.k1",
                                                               "rl.k3",
                                                               "rl.ratio_tail",
                                                               "rl.route_mismatch",
                                                               "train.reward_mean",
                                                               "train.policy_entropy",
                                                               "train.loss",
                                                               "train.loss_scale",
                                                               "train.grad_norm",
                                                               "train.update_ratio",
                                                               "attn.delta2.effective_rank",
                                                               "attn.delta2.entropy_ratio_l1",
                                                               "router.token_entropy_ratio",
                                                               "router.mutual_information",
                                                               "router.weight_similarity",
                                                               "load.entropy_ratio",
                                                               "load.max_violation_ratio"};
  return *kAll;
}

std::vector<std::string> JudgedIndicators(const FidelityInput& input) {
  std::vector<std::string> judged = input.indicators;
  const FiredAlerts full = Response(*input.full_fault, *input.full_healthy, input);
  for (const auto& [indicator, move] : full.moves) judged.push_back(indicator);
  return judged;
}

absl::StatusOr<Fidelity> JudgeFidelity(const FidelityInput& input) {
  FORESHOCK_ASSIGN_OR_RETURN(const Overlap full_overlap,
                             Comparable(*input.full_fault, *input.full_healthy));
  FORESHOCK_RETURN_IF_ERROR(Comparable(*input.proxy_fault, *input.proxy_healthy).status());
  FORESHOCK_RETURN_IF_ERROR(Comparable(*input.full_fault, *input.proxy_fault).status());
  const FiredAlerts full = Response(*input.full_fault, *input.full_healthy, input);
  const FiredAlerts proxy = Response(*input.proxy_fault, *input.proxy_healthy, input);
  int64_t first_step = full_overlap.first;
  if (input.fault_from.has_value()) {
    if (*input.fault_from < full_overlap.first || *input.fault_from > full_overlap.last) {
      return absl::InvalidArgumentError(
          absl::StrCat("the fault is said to begin at step ", *input.fault_from,
                       ", but the full model's runs share the steps ", full_overlap.first, " to ",
                       full_overlap.last));
    }
    first_step = std::max(first_step, 2 * *input.fault_from - full_overlap.last);
  }

  Fidelity fidelity;
  fidelity.full_alerts = full.names();
  fidelity.proxy_alerts = proxy.names();
  fidelity.full_fault = full.fault;
  fidelity.proxy_fault = proxy.fault;
  std::set<std::string> known;
  for (const auto& [key, curve] : input.full_fault->series) known.insert(key.indicator);
  std::set<std::string> judged;
  for (const auto& [indicator, move] : full.moves) judged.insert(indicator);
  for (const std::string& pattern : input.indicators) {
    const size_t before = judged.size();
    for (const std::string& indicator : known) {
      if (IsOf(pattern, indicator)) judged.insert(indicator);
    }
    const bool matched = std::any_of(judged.begin(), judged.end(),
                                     [&](const std::string& one) { return IsOf(pattern, one); });
    if (judged.size() == before && !matched) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the indicator ", pattern, ": the run ", input.full_fault->name, " has no such series"));
    }
  }
  std::set<std::string> shown = judged;
  for (const std::string& indicator : FidelityIndicators()) {
    if (known.count(indicator) > 0) shown.insert(indicator);
  }
  for (const std::string& indicator : shown) {
    IndicatorResponse response;
    response.indicator = indicator;
    response.judged = judged.count(indicator) > 0;
    if (const auto move = full.moves.find(indicator); move != full.moves.end()) {
      response.full_step = move->second.step;
      if (!move->second.all_layers) {
        response.layers.assign(move->second.layers.begin(), move->second.layers.end());
      }
    }
    if (const auto move = proxy.moves.find(indicator); move != proxy.moves.end()) {
      response.proxy_step = move->second.step;
    }
    response.full =
        ResponseOf(indicator, response.layers, *input.full_fault, *input.full_healthy, first_step);
    response.proxy = ResponseOf(indicator, response.layers, *input.proxy_fault,
                                *input.proxy_healthy, first_step);
    JudgeResponse(&response);
    fidelity.indicators.push_back(std::move(response));
  }
  std::stable_sort(fidelity.indicators.begin(), fidelity.indicators.end(),
                   [](const IndicatorResponse& a, const IndicatorResponse& b) {
                     const auto place = [](const IndicatorResponse& one) {
                       return std::pair(!one.judged, one.full_step.value_or(INT64_MAX));
                     };
                     return place(a) < place(b);
                   });
  fidelity.criteria = {
      TypeOf(full, proxy),
      OverIndicators("direction", fidelity.indicators, &IndicatorResponse::direction),
      OverIndicators("trend", fidelity.indicators, &IndicatorResponse::trend),
      OrderOf(full, proxy),
      OnsetOf(full, proxy, input, full_overlap.first),
      QuietOf(input)};
  fidelity.outcome = Overall(fidelity.criteria);
  return fidelity;
}

}  // namespace foreshock::backtest
