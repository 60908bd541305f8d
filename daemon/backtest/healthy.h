// What the rules of a set compared with their limits in healthy runs, reduced to one number a rule
// and step: the limit at which the rule would have fired there.
//
//   HealthyHistory healthy(rules);
//   FORESHOCK_RETURN_IF_ERROR(ReadCaptureSteps("good.fscap", {}, &healthy));
//   healthy.EndRun();
//   for (const ExcursionSeries& run : healthy.of(rule_index)) ...
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/backtest/steps.h"
#include "daemon/backtest/tail.h"
#include "daemon/rules/evaluator.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {

// Limits and statistics are handled in this scale, in which larger is worse and noise is additive:
// the logarithm of a ratio to a baseline, the value or z otherwise, negated for limits below.
double ToScale(const rules::Limits& limits, double measured);
double FromScale(const rules::Limits& limits, double scaled);

// The rule with other limits, where it has some that can be moved.
std::shared_ptr<const rules::Rule> WithLimits(const rules::Rule& rule, double limit, double clear);

// The samples of one series against `hits`, `for`, `clear` and `clear_samples`: the highest limit
// that would be firing at its newest one.
class SeriesStatistic {
 public:
  // In scale. -infinity where nothing fires.
  double Push(const rules::Rule& rule, int64_t step, double scaled);
  double newest() const { return firing_; }
  void Restart() { *this = SeriesStatistic(); }

 private:
  struct Alive {
    int64_t step;
    double worst;  // of the newest `of` samples
  };
  double Starts(const rules::MachineParams& machine, int64_t step);
  double Ends(const rules::Rule& rule) const;

  std::deque<double> recent_;  // the newest `of`
  std::deque<Alive> alive_;    // back to the newest sample at least `for` ago
  std::deque<double> calm_;    // the newest `clear_samples`
  double firing_ = -std::numeric_limits<double>::infinity();
};

// Thread-compatible. Memory: 16 bytes a rule and step at which it was judged.
class HealthyHistory final : public StepSink {
 public:
  explicit HealthyHistory(std::shared_ptr<const rules::CompiledRules> rules);

  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override;
  void DeclarePlan(uint32_t rank, uint32_t world_size,
                   absl::Span<const v1::PlanEntry> plan) override;
  void RankGone(uint32_t rank) override;
  void SetSilentRanks(std::vector<uint32_t> ranks) override;
  void Tick(int64_t now_unix_ns) override;
  void OnStep(const model::ClosedStep& step) override;
  void EndRun();

  const rules::CompiledRules& rules() const { return *rules_; }
  const std::vector<ExcursionSeries>& of(size_t rule) const { return histories_[rule]; }
  // Alerts of rules without a numeric limit that began.
  size_t begun(size_t rule) const { return begun_[rule]; }
  uint64_t samples(size_t rule) const { return samples_[rule]; }
  uint64_t steps() const { return steps_; }
  // Median wall time between steps; nullopt when the steps carry no times.
  std::optional<double> step_seconds() const;

 private:
  struct Series {
    int32_t layer = model::kNoLayer;
    SeriesStatistic statistic;
  };
  double RuleStatistic(const rules::Rule& rule, const std::vector<Series>& series) const;
  void NoteTime(const model::ClosedStep& step);
  void CountBegun(const std::vector<model::AlertRow>& rows, int64_t step);

  const std::shared_ptr<const rules::CompiledRules> rules_;
  std::shared_ptr<rules::CompiledRules>
      unreachable_;  // the same rules with limits that nothing reaches
  std::unique_ptr<rules::Evaluator> evaluator_;
  std::vector<absl::flat_hash_map<model::SeriesKey, size_t>> places_;  // of the run
  std::vector<std::vector<Series>> series_;                            // of the run, by rule
  std::vector<std::vector<ExcursionSeries>> histories_;
  std::vector<size_t> begun_;
  std::vector<uint64_t> samples_;
  std::vector<float> step_seconds_;
  uint64_t steps_ = 0;
  int64_t last_step_ = 0;
  int64_t last_time_ns_ = 0;
};

}  // namespace foreshock::backtest
