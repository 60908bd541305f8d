// Does a proxy answer a fault as the full model does? Four runs, {full, proxy} x {healthy, fault},
// of the same prompts, order, optimizer, learning rate and step count.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Fidelity fidelity,
//                              JudgeFidelity({.full_healthy = &a, .full_fault = &b,
//                                             .proxy_healthy = &c, .proxy_fault = &d}));
//
// For an indicator x the response is d(t) = x_fault(t) - x_healthy(t), the mean over its layers and
// heads, smoothed by a running median of 5. Absolute values need not agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/backtest/recorded_run.h"

namespace foreshock::backtest {

inline constexpr size_t kFidelitySteps = 20;  // fewer common steps judge nothing
inline constexpr double kTrendLeast = 0.7;    // Spearman
inline constexpr double kOrderLeast = 0.6;    // Kendall, of four indicators or more
inline constexpr double kOnsetFactor = 2;

// Shown also where nothing fires on them.
const std::vector<std::string>& FidelityIndicators();

struct FidelityInput {
  const RecordedRun* full_healthy = nullptr;
  const RecordedRun* full_fault = nullptr;
  const RecordedRun* proxy_healthy = nullptr;
  const RecordedRun* proxy_fault = nullptr;
  // Where the fault begins in both faulty runs: alerts before it do not count, onsets are counted
  // from it, and d(t) is taken over as many steps before it as after it.
  std::optional<int64_t> fault_from{};
  std::string severity = "warning";  // alerts below it are not looked at
  // Judged for direction and trend whether they fire or not; exact, or a prefix ending in '*'.
  std::vector<std::string> indicators{};
};

enum class Outcome { kPass, kFail, kUndefined };

struct Criterion {
  std::string name{};  // "type", "direction", "trend", "order", "onset", "quiet"
  Outcome outcome = Outcome::kUndefined;
  bool required = true;
  std::string reason{};  // one sentence, also of a pass
};

struct IndicatorResponse {
  std::string indicator;
  bool judged = false;               // for direction and trend
  std::vector<uint32_t> layers;      // looked at; empty: all
  std::optional<int64_t> full_step;  // it moved, as the alerts say
  std::optional<int64_t> proxy_step;
  Curve full;  // d(t)
  Curve proxy;
  std::optional<double> full_slope;  // per step
  std::optional<double> proxy_slope;
  Outcome direction = Outcome::kUndefined;
  size_t points = 0;  // steps that both d have
  std::optional<double> spearman;
  Outcome trend = Outcome::kUndefined;
  std::string reason;  // of what is undefined
};

struct Fidelity {
  Outcome outcome = Outcome::kUndefined;
  std::vector<Criterion> criteria;
  std::vector<IndicatorResponse> indicators;  // judged ones first, in the order in which they moved
  std::vector<std::string> full_alerts;       // that fire with the fault and not without it
  std::vector<std::string> proxy_alerts;
  std::string full_fault;  // the fault that the first of them names; empty: none
  std::string proxy_fault;
};

// The indicators that `input`'s alerts call for; those of which curves are needed.
std::vector<std::string> JudgedIndicators(const FidelityInput& input);

// InvalidArgument, naming the runs, where two that are compared have no series in common or fewer
// than kFidelitySteps steps.
absl::StatusOr<Fidelity> JudgeFidelity(const FidelityInput& input);

}  // namespace foreshock::backtest
