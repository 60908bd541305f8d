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

namespace foreshock {
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
      : rule_(rule), detector_(rule.detector), options_(options) {}

  absl::StatusOr<PromqlAlert> Translate() {
    FORESHOCK_ASSIGN_OR_RETURN(std::string breach, Breach());
    if (detector_.kind != Detector::Kind::kNonFinite) breach = Quorum(std::move(breach));
    alert_.expression = absl::StrCat(breach, Guards());
    alert_.for_seconds =
        Seconds(rule_.machine.pending_for) + SamplesSeconds(rule_.machine.hits - 1);
    const int64_t clear = detector_.kind == Detector::Kind::kNonFinite
                              ? 0  // in the range of the counter
                              : SamplesSeconds(rule_.machine.clear_samples);
    alert_.keep_firing_seconds = std::max(Seconds(rule_.machine.keep_firing_for), clear);
    return std::move(alert_);
  }

 private:
  absl::StatusOr<std::string> Breach() {
    switch (detector_.kind) {
      case Detector::Kind::kThreshold:
      case Detector::Kind::kRelative:
      case Detector::Kind::kRobustZ:
        return Comparison();
      case Detector::Kind::kNoData:
        return NoData();
      case Detector::Kind::kNonFinite:
        return NonFinite();
      default:
        return NoGauge("its detector needs what only the daemon sees");
    }
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
    const IndicatorInfo* info = FindIndicator(absl::StripPrefix(indicator, "eval."));
    const bool scalar = info == nullptr;
    if (scalar && rule_.input.scope != Input::Scope::kRank) return std::string();
    if (!scalar && info->unit == Unit::kNone) return std::string();
    if (rule_.input.aggregate != Input::Aggregate::kEach) {
      return std::string(AggregateName(rule_.input.aggregate));
    }
    // One unit is beyond a fixed limit exactly when the most extreme one is.
    const bool extreme = detector_.kind == Detector::Kind::kThreshold && rule_.units.count == 1 &&
                         rule_.units.share == 0;
    if (extreme) return std::string(detector_.side == Detector::Side::kBelow ? "min" : "max");
    return NoGauge("/metrics has no series of every unit, and the rule judges each by itself");
  }

  absl::StatusOr<std::string> Gauge(const std::string& indicator) const {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string aggregate, AggregateOf(indicator));
    const MetricInfo metric = MetricOf(indicator);
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
    FORESHOCK_ASSIGN_OR_RETURN(std::string value, Combined());
    const std::string& divide_by = rule_.input.divide_by;
    if (!divide_by.empty()) {
      const MetricInfo metric = MetricOf(divide_by);
      const std::string name =
          metric.scalar.empty() ? "" : absl::StrCat("name=\"", metric.scalar, "\",");
      const std::string divisor = absl::StrCat(metric.name, "{", name, "aggregate=\"\"}");
      const IndicatorInfo* info =
          FindIndicator(absl::StripPrefix(rule_.input.indicators[0], "eval."));
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
    if (detector_.log) value = absl::StrCat("ln((", value, ") > 0)");
    return value;
  }

  std::string Record(absl::string_view part, std::string expression) {
    std::string name = absl::StrCat("foreshock:", rule_.name, ":", part);
    alert_.records.emplace_back(name, std::move(expression));
    return name;
  }

  // --- detectors

  absl::StatusOr<std::string> Comparison() {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string value, Value());
    if (detector_.kind == Detector::Kind::kRobustZ &&
        (detector_.side == Detector::Side::kBelow ? detector_.limit > 0 : detector_.limit < 0)) {
      return NoGauge("its limit of z lies on the other side of the baseline");
    }
    if (detector_.kind == Detector::Kind::kThreshold) {
      value_ = value;
      return Beyond(value, detector_.side);
    }
    const BaselineSpec& baseline = rule_.baseline;
    std::string median;
    std::string spread;  // empty: only the floor
    std::string floor;   // times this, the spread is at least
    switch (baseline.kind) {
      case BaselineSpec::Kind::kFixed:
        value_ = absl::StrCat("(", value, ")");
        median = Number(baseline.value);
        floor = Number(baseline.spread_floor * std::abs(baseline.value));
        break;
      case BaselineSpec::Kind::kTrailing: {
        value_ = Record("value", value);
        const int64_t offset = SamplesSeconds(baseline.lag);
        const int64_t window = SamplesSeconds(baseline.samples);
        past_seconds_ = offset + std::max(window, kRangeSecondsMin);
        const auto quantile = [&](const char* q) {
          return absl::StrCat("quantile_over_time(", q, ", ", value_, Range(window), " offset ",
                              PromqlDuration(offset), ")");
        };
        median = Record("baseline", quantile("0.5"));
        floor = absl::StrCat(Number(baseline.spread_floor), " * abs(", median, ")");
        if (detector_.kind == Detector::Kind::kRobustZ || detector_.min_z > 0) {
          // Of a normal distribution the quartiles are 1.349 standard deviations apart.
          spread = Record(
              "spread", absl::StrCat("(", quantile("0.75"), " - ", quantile("0.25"), ") / 1.349"));
        }
        break;
      }
      case BaselineSpec::Kind::kAnchored:
        return NoGauge("an anchored baseline needs the first samples after the warm-up");
      case BaselineSpec::Kind::kPlateau:
        return NoGauge("the plateau is the learning rate at the end of its warm-up");
      default:
        return NoGauge("its baseline is not on /metrics");
    }
    const std::string distance = absl::StrCat("(", value_, " - ", median, ")");
    const auto farther = [&](const std::string& from, double z, const char* than) {
      const auto times = [&](const std::string& unit) {
        return absl::StrCat(from, than, Number(z), " * ", unit);
      };
      return spread.empty() ? times(floor) : absl::StrCat(times(spread), " and ", times(floor));
    };
    if (detector_.kind == Detector::Kind::kRelative) {
      std::string breach = Beyond(absl::StrCat(value_, " / ", median), detector_.side);
      if (past_seconds_ > 0) absl::StrAppend(&breach, " and ", median, " > 0");
      if (detector_.min_z > 0) {
        absl::StrAppend(&breach, " and ",
                        farther(absl::StrCat("abs", distance), detector_.min_z, " >= "));
      }
      return breach;
    }
    switch (detector_.side) {
      case Detector::Side::kAbove:
        return farther(distance, detector_.limit, " > ");
      case Detector::Side::kBelow:
        return farther(absl::StrCat("-", distance), -detector_.limit, " > ");
      case Detector::Side::kOutside:
        return farther(absl::StrCat("abs", distance), detector_.limit, " > ");
    }
    return NoGauge("its side is unknown");
  }

  std::string Beyond(const std::string& value, Detector::Side side) const {
    return absl::StrCat(value, side == Detector::Side::kBelow ? " < " : " > ",
                        Number(detector_.limit));
  }

  std::string Quorum(std::string breach) {
    const foreshock::Quorum& layers = rule_.layers;
    if (detector_.kind == Detector::Kind::kNoData || (layers.count <= 1 && layers.share == 0)) {
      return breach;
    }
    if (layers.share > 0) {
      return absl::StrCat("count by (run) (", breach, ") >= ", Number(layers.share),
                          " * count by (run) (", value_, ")");
    }
    return absl::StrCat("count by (run) (", breach, ") >= ", layers.count);
  }

  absl::StatusOr<std::string> NoData() {
    const std::string& indicator = rule_.input.indicators[0];
    return absl::StrCat("foreshock_last_step - on (run) group_right () ",
                        "foreshock_indicator_last_step{indicator=\"", indicator,
                        "\"} >= ", detector_.intervals * SampleSteps());
  }

  absl::StatusOr<std::string> NonFinite() {
    if (detector_.scope == Input::Scope::kRun) {
      return NoGauge(
          "foreshock_nonfinite_total does not say whether a name is sent by the run or by its "
          "ranks");
    }
    std::vector<std::string> patterns;
    for (absl::string_view name : detector_.names) {
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
    if (detector_.ranks_more_than > 0 || detector_.ranks_at_most < 1) {
      const std::string share = absl::StrCat(ranks, " / on (run) foreshock_run_world_size");
      breach = detector_.ranks_more_than > 0
                   ? absl::StrCat(share, " > ", Number(detector_.ranks_more_than))
                   : absl::StrCat(share, " <= ", Number(detector_.ranks_at_most));
      if (detector_.ranks_more_than > 0 && detector_.ranks_at_most < 1) {
        absl::StrAppend(&breach, " and ", share, " <= ", Number(detector_.ranks_at_most));
      }
    }
    return breach;
  }

  // --- what must hold besides

  std::string Guards() const {
    std::string guards = " and on (run) foreshock_run_state{state=\"live\"} == 1";
    const bool values =
        detector_.kind != Detector::Kind::kNonFinite && detector_.kind != Detector::Kind::kNoData;
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
  const Detector& detector_;
  const PromqlOptions& options_;
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

}  // namespace foreshock
