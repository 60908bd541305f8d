// Band files: median and spread by step or tokens of what rules look at, from healthy runs
// (docs/formats/band.md).
//
//   BandMaker maker(rules, BandMaker::Align::kStep);
//   FORESHOCK_RETURN_IF_ERROR(ReadCaptureSteps("good.fscap", {}, &maker));
//   FORESHOCK_ASSIGN_OR_RETURN(const std::string text, maker.Text());
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/backtest/steps.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {

// Thread-compatible. Memory: 16 bytes a value.
class BandMaker final : public StepSink {
 public:
  enum class Align : uint8_t { kStep, kTokens };

  BandMaker(std::shared_ptr<const rules::CompiledRules> rules, Align align);

  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override;
  void OnStep(const model::ClosedStep& step) override;
  void EndRun();

  // The file: at most `bins` points a series, fewer where there are fewer values. InvalidArgument
  // when there is no value, or when the file would be larger than a reader takes (1 MiB): then
  // fewer bins or rules are needed.
  absl::StatusOr<std::string> Text(int bins) const;

 private:
  // What a rule looks at, before dividing, combining and smoothing.
  struct Wanted {
    std::string indicator;
    rules::Input::Aggregate aggregate = rules::Input::Aggregate::kEach;
    rules::Input::Scope scope = rules::Input::Scope::kAny;
    uint32_t flags_not_judged = 0;
    friend auto operator<=>(const Wanted&, const Wanted&) = default;
  };
  struct Value {
    double position;
    double value;
  };
  using Curve = std::map<int64_t, Value>;  // by step: the newest attempt counts
  struct Key {
    std::string indicator;
    rules::Input::Aggregate aggregate = rules::Input::Aggregate::kEach;
    model::SeriesKey series;  // without indicator
    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.indicator, a.aggregate, a.series) <
             std::tie(b.indicator, b.aggregate, b.series);
    }
  };

  const Align align_;
  std::vector<Wanted> wanted_;
  std::vector<std::string> runs_;
  std::map<Key, Curve> curves_;                // of the run
  std::map<Key, std::vector<Value>> values_;   // of all ended runs
  std::map<int64_t, uint64_t> tokens_before_;  // of the run: sum up to and with a step
};

}  // namespace foreshock::backtest
