#include "daemon/rules/promql.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/metric_names.h"

namespace foreshock::rules {
namespace {

// A range must hold a few scrapes, however fast the steps are.
constexpr int64_t kRangeSecondsMin = 60;

absl::Status NoGauge(absl::string_view reason) { return absl::InvalidArgumentError(reason); }

std::string Number(double value) { return absl::StrFormat("%.12g", value); }

std::string Range(int64_t seconds) {
  return absl::StrCat("[", PromqlDuration(std::max(seconds, kRangeSecondsMin)), "]");
}

class Translator {
 public:
  Translator(const Rule& rule, const PromqlOptions& options)
      : rule_(rule), options_(options), non_finite_(std::get_if<NonFiniteSpec>(&rule.detector)) {}

  absl::StatusOr<PromqlAlert> Translate() {
    FORESHOCK_ASSIGN_OR_RETURN(std::string breach, Breach());
    alert_.expression = absl::StrCat(Quorum(std::move(breach)), Guards());
    alert_.for_seconds =
        Seconds(rule_.machine.pending_for) + SamplesSeconds(rule_.machine.hits - 1);
    const int64_t clear = non_finite_ != nullptr ? 0  // in the range of the counter
                                                 : SamplesSeconds(rule_.machine.clear_samples);
    alert_.keep_firing_seconds = std::max(Seconds(rule_.machine.keep_firing_for), clear);
    return std::move(alert_);
  }

 private:
  // What a value is compared with, as expressions.
  struct Baseline {
    std::string median;
    std::string spread;  // empty: only the floor
    std::string floor;   // times this, the spread is at least
  };

  absl::StatusOr<std::string> Breach() {
    const Detector& detector = rule_.detector;
    if (const auto* spec = std::get_if<ThresholdSpec>(&detector)) return Threshold(spec->limits);
    if (const auto* spec = std::get_if<RelativeSpec>(&detector)) return Relative(*spec);
    if (const auto* spec = std::get_if<RobustZSpec>(&detector)) return RobustZ(*spec);
    if (const auto* spec = std::get_if<NoDataSpec>(&detector)) return NoData(*spec);
    if (non_finite_ != nullptr) return NonFinite(*non_finite_);
    return NoGauge("its detector needs what only the daemon sees");
  }

  // --- lengths

  int64_t SampleSteps() const {
    if (rule_.input.indicators.empty()) return 1;
    const absl::string_view id = absl::StripPrefix(rule_.input.indicators[0], "eval.");
    const bool sampled = absl::StartsWith(id, "attn.") || absl::StartsWith(id, "router.") ||
                         absl::StartsWith(id, "tensor.");
    return sampled ? options_.sample_steps : 1;
  }
  int64_t StepsSeconds(double steps) const {
    return static_cast<int64_t>(std::ceil(steps * options_.step_seconds - 1e-9));
  }
  int64_t SamplesSeconds(double samples) const {
    return StepsSeconds(samples * static_cast<double>(SampleSteps()));
  }
  int64_t Seconds(const Length& length) const {
    const double count = static_cast<double>(length.count);
    return length.in_samples ? SamplesSeconds(count) : StepsSeconds(count);
  }

  // --- values

  // The aggregate of /metrics that stands for what the rule looks at; "" where there is none.
  absl::StatusOr<std::string> AggregateOf(const std::string& indicator) const {
    const model::IndicatorInfo* info = model::FindIndicator(absl::StripPrefix(indicator, "eval."));
    const bool scalar = info == nullptr;
    if (scalar && rule_.input.scope != Input::Scope::kRank) return std::string();
    if (!scalar && info->unit == model::Unit::kNone) return std::string();
    if (rule_.input.aggregate != Input::Aggregate::kEach) {
      return std::string(AggregateName(rule_.input.aggregate));
    }
    // One unit is beyond a fixed limit exactly when the most extreme one is.
    const auto* threshold = std::get_if<ThresholdSpec>(&rule_.detector);
    if (threshold != nullptr && rule_.units.count == 1 && rule_.units.share == 0) {
      return std::string(threshold->limits.side == Side::kBelow ? "min" : "max");
    }
    return NoGauge("/metrics has no series of every unit, and the rule judges each by itself");
  }

  absl::StatusOr<std::string> Gauge(const std::string& indicator) const {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string aggregate, AggregateOf(indicator));
    const model::MetricInfo metric = model::MetricOf(indicator);
    const std::string name =
        metric.scalar.empty() ? "" : absl::StrCat("name=\"", metric.scalar, "\",");
    return absl::StrCat(metric.name, "{", name, "aggregate=\"", aggregate, "\"}");
  }

  absl::StatusOr<std::string> Combined() const {
    std::vector<std::string> gauges;
    for (const std::string& indicator : rule_.input.indicators) {
      FORESHOCK_ASSIGN_OR_RETURN(std::string gauge, Gauge(indicator));
      gauges.push_back(std::move(gauge));
    }
    std::vector<std::string> terms;
    switch (rule_.input.combine) {
      case Input::Combine::kNone:
        return gauges[0];
      case Input::Combine::kNorm:
        for (const std::string& gauge : gauges) terms.push_back(absl::StrCat(gauge, "^2"));
        return absl::StrCat("sqrt(", SumOf(terms), ")");
      case Input::Combine::kSum:
        return absl::StrCat("(", SumOf(gauges), ")");
      case Input::Combine::kMean:
        return absl::StrCat("((", SumOf(gauges), ") / ", gauges.size(), ")");
      case Input::Combine::kMin:
      case Input::Combine::kMax:
        break;
    }
    for (const std::string& gauge : gauges) {
      terms.push_back(
          absl::StrCat("label_replace(", gauge, ", \"part\", \"", terms.size(), "\", \"\", \"\")"));
    }
    const char* function = rule_.input.combine == Input::Combine::kMin ? "min" : "max";
    return absl::StrCat(function, " by (run) (", absl::StrJoin(terms, " or "), ")");
  }

  // Scalars outside the documented names differ in their label `name`.
  static std::string SumOf(const std::vector<std::string>& terms) {
    return absl::StrJoin(terms, " + on (run) ");
  }

  absl::StatusOr<std::string> Value() {
    if (rule_.input.siblings) return NoGauge("only the daemon sees every layer and rank of a step");
    FORESHOCK_ASSIGN_OR_RETURN(std::string value, Combined());
    const std::string& divide_by = rule_.input.divide_by;
    if (!divide_by.empty()) {
      const model::MetricInfo metric = model::MetricOf(divide_by);
      const std::string name =
          metric.scalar.empty() ? "" : absl::StrCat("name=\"", metric.scalar, "\",");
      const std::string divisor = absl::StrCat(metric.name, "{", name, "aggregate=\"\"}");
      const model::IndicatorInfo* info =
          model::FindIndicator(absl::StripPrefix(rule_.input.indicators[0], "eval."));
      const bool layered = info != nullptr && info->per_layer;
      value = layered ? absl::StrCat(value, " / on (run) group_left () (avg_over_time(", divisor,
                                     Range(SamplesSeconds(1)), ") != 0)")
                      : absl::StrCat(value, " / on (run) (", divisor, " != 0)");
    }
    if (rule_.input.smooth > 1) {
      const std::string raw = Record("raw", value);
      value = absl::StrCat("quantile_over_time(0.5, ", raw,
                           Range(SamplesSeconds(rule_.input.smooth)), ")");
    }
    return value;
  }

  std::string Record(absl::string_view part, std::string expression) {
    std::string name = absl::StrCat("foreshock:", rule_.name, ":", part);
    alert_.records.emplace_back(name, std::move(expression));
    return name;
  }

  // --- detectors

  absl::StatusOr<std::string> Threshold(const Limits& limits) {
    FORESHOCK_ASSIGN_OR_RETURN(value_, Value());
    return Beyond(value_, limits);
  }

  absl::StatusOr<std::string> Relative(const RelativeSpec& spec) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string value, Value());
    FORESHOCK_ASSIGN_OR_RETURN(const Baseline baseline, BaselineOf(value, spec.min_z > 0));
    std::string breach = Beyond(absl::StrCat(value_, " / ", baseline.median), spec.limits);
    if (past_seconds_ > 0) absl::StrAppend(&breach, " and ", baseline.median, " > 0");
    if (spec.min_z > 0) {
      const std::string distance = absl::StrCat("abs", Distance(baseline));
      absl::StrAppend(&breach, " and ", Farther(baseline, distance, spec.min_z, " >= "));
    }
    return breach;
  }

  absl::StatusOr<std::string> RobustZ(const RobustZSpec& spec) {
    FORESHOCK_ASSIGN_OR_RETURN(std::string value, Value());
    if (spec.log) value = absl::StrCat("ln((", value, ") > 0)");
    const Limits& limits = spec.limits;
    if (limits.side == Side::kBelow ? limits.limit > 0 : limits.limit < 0) {
      return NoGauge("its limit of z lies on the other side of the baseline");
    }
    FORESHOCK_ASSIGN_OR_RETURN(const Baseline baseline, BaselineOf(value, /*spread=*/true));
    const std::string distance = Distance(baseline);
    switch (limits.side) {
      case Side::kAbove:
        return Farther(baseline, distance, limits.limit, " > ");
      case Side::kBelow:
        return Farther(baseline, absl::StrCat("-", distance), -limits.limit, " > ");
      case Side::kOutside:
        return Farther(baseline, absl::StrCat("abs", distance), limits.limit, " > ");
    }
    return NoGauge("its side is unknown");
  }

  // Of `value`, which becomes value_. `spread`: it is asked for.
  absl::StatusOr<Baseline> BaselineOf(const std::string& value, bool spread) {
    const BaselineSpec& spec = rule_.baseline;
    Baseline baseline;
    switch (spec.kind) {
      case BaselineSpec::Kind::kFixed:
        value_ = absl::StrCat("(", value, ")");
        baseline.median = Number(spec.value);
        baseline.floor = Number(spec.spread_floor * std::abs(spec.value));
        return baseline;
      case BaselineSpec::Kind::kTrailing: {
        value_ = Record("value", value);
        const int64_t offset = SamplesSeconds(spec.lag);
        const int64_t window = SamplesSeconds(spec.samples);
        past_seconds_ = offset + std::max(window, kRangeSecondsMin);
        const auto quantile = [&](const char* q) {
          return absl::StrCat("quantile_over_time(", q, ", ", value_, Range(window), " offset ",
                              PromqlDuration(offset), ")");
        };
        baseline.median = Record("baseline", quantile("0.5"));
        baseline.floor = absl::StrCat(Number(spec.spread_floor), " * abs(", baseline.median, ")");
        if (spread) {
          // Of a normal distribution the quartiles are 1.349 standard deviations apart.
          baseline.spread = Record(
              "spread", absl::StrCat("(", quantile("0.75"), " - ", quantile("0.25"), ") / 1.349"));
        }
        return baseline;
      }
      case BaselineSpec::Kind::kAnchored:
        return NoGauge("an anchored baseline needs the first samples after the warm-up");
      case BaselineSpec::Kind::kPlateau:
        return NoGauge("the plateau is the learning rate at the end of its warm-up");
      default:
        return NoGauge("its baseline is not on /metrics");
    }
  }

  std::string Distance(const Baseline& baseline) const {
    return absl::StrCat("(", value_, " - ", baseline.median, ")");
  }

  // `distance` is more than `z` spreads.
  static std::string Farther(const Baseline& baseline, const std::string& distance, double z,
                             const char* than) {
    const auto times = [&](const std::string& unit) {
      return absl::StrCat(distance, than, Number(z), " * ", unit);
    };
    return baseline.spread.empty()
               ? times(baseline.floor)
               : absl::StrCat(times(baseline.spread), " and ", times(baseline.floor));
  }

  static std::string Beyond(const std::string& value, const Limits& limits) {
    return absl::StrCat(value, limits.side == Side::kBelow ? " < " : " > ", Number(limits.limit));
  }

  std::string Quorum(std::string breach) {
    const foreshock::rules::Quorum& layers = rule_.layers;
    if (!OfValues() || (layers.count <= 1 && layers.share == 0)) return breach;
    if (layers.share > 0) {
      return absl::StrCat("count by (run) (", breach, ") >= ", Number(layers.share),
                          " * count by (run) (", value_, ")");
    }
    return absl::StrCat("count by (run) (", breach, ") >= ", layers.count);
  }

  absl::StatusOr<std::string> NoData(const NoDataSpec& spec) {
    const std::string& indicator = rule_.input.indicators[0];
    return absl::StrCat("foreshock_last_step - on (run) group_right () ",
                        "foreshock_indicator_last_step{indicator=\"", indicator,
                        "\"} >= ", spec.intervals * SampleSteps());
  }

  absl::StatusOr<std::string> NonFinite(const NonFiniteSpec& spec) {
    if (spec.scope == Input::Scope::kRun) {
      return NoGauge(
          "foreshock_nonfinite_total does not say whether a name is sent by the run or by its "
          "ranks");
    }
    std::vector<std::string> patterns;
    for (absl::string_view name : spec.names) {
      const bool prefix = absl::ConsumeSuffix(&name, "*");
      patterns.push_back(
          absl::StrCat(absl::StrReplaceAll(name, {{".", "\\\\."}}), prefix ? ".*" : ""));
    }
    const std::string counter = absl::StrCat(
        "foreshock_nonfinite_total",
        patterns.empty() ? std::string()
                         : absl::StrCat("{name=~\"", absl::StrJoin(patterns, "|"), "\"}"));
    const int64_t seconds =
        std::max(SamplesSeconds(rule_.machine.clear_samples), int64_t{5} * kRangeSecondsMin);
    const std::string age = PromqlDuration(seconds);
    // The first value of a counter is no increase of it.
    const std::string ranks =
        absl::StrCat("count by (run) (sum by (run, rank) (increase(", counter, "[", age,
                     "]) > 0 or (", counter, " unless ", counter, " offset ", age, ")))");
    std::string breach = absl::StrCat(ranks, " > 0");
    if (spec.ranks_more_than > 0 || spec.ranks_at_most < 1) {
      const std::string share = absl::StrCat(ranks, " / on (run) foreshock_run_world_size");
      breach = spec.ranks_more_than > 0 ? absl::StrCat(share, " > ", Number(spec.ranks_more_than))
                                        : absl::StrCat(share, " <= ", Number(spec.ranks_at_most));
      if (spec.ranks_more_than > 0 && spec.ranks_at_most < 1) {
        absl::StrAppend(&breach, " and ", share, " <= ", Number(spec.ranks_at_most));
      }
    }
    return breach;
  }

  // --- what must hold besides

  bool OfValues() const { return FamilyOf(rule_.detector) == Family::kSamples; }

  std::string Guards() const {
    std::string guards = " and on (run) foreshock_run_state{state=\"live\"} == 1";
    const bool values = OfValues();
    if (values && rule_.input.flags_not_judged != 0) {
      for (const std::string& indicator : rule_.input.indicators) {
        absl::StrAppend(&guards, " and on (run) foreshock_indicator_valid{indicator=\"", indicator,
                        "\"} == 1");
      }
    }
    if (values && !rule_.judged_in_warm_up) {
      const std::string past =
          past_seconds_ > 0 ? absl::StrCat(" offset ", PromqlDuration(past_seconds_)) : "";
      absl::StrAppend(&guards, " and on (run) foreshock_last_step", past,
                      " >= ", options_.warm_up_steps);
    }
    return guards;
  }

  const Rule& rule_;
  const PromqlOptions& options_;
  const NonFiniteSpec* const non_finite_;
  PromqlAlert alert_;
  std::string value_;         // what is compared
  int64_t past_seconds_ = 0;  // how far the baseline looks back
};

}  // namespace

std::string PromqlDuration(int64_t seconds) {
  if (seconds > 0 && seconds % 3600 == 0) return absl::StrCat(seconds / 3600, "h");
  if (seconds > 0 && seconds % 60 == 0) return absl::StrCat(seconds / 60, "m");
  return absl::StrCat(seconds, "s");
}

absl::StatusOr<PromqlAlert> RuleToPromql(const Rule& rule, const PromqlOptions& options) {
  return Translator(rule, options).Translate();
}

}  // namespace foreshock::rules
