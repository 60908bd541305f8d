#include "daemon/backtest/band.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/base/order_statistics.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/baseline.h"

namespace foreshock::backtest {
namespace {

constexpr size_t kFileBytesMax = 1u << 20;  // of a YAML reader

double Reduce(rules::Input::Aggregate aggregate, std::vector<double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  switch (aggregate) {
    case rules::Input::Aggregate::kMin:
      return *std::min_element(values.begin(), values.end());
    case rules::Input::Aggregate::kMax:
      return *std::max_element(values.begin(), values.end());
    case rules::Input::Aggregate::kP10:
      return base::Percentile10(std::move(values));
    default:
      return sum / static_cast<double>(values.size());
  }
}

// Quoted only where YAML needs it; names of tensors and runs may hold anything.
std::string YamlQuoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace

BandMaker::BandMaker(std::shared_ptr<const rules::CompiledRules> rules, Align align)
    : align_(align) {
  std::set<Wanted> wanted;
  for (const auto& rule : rules->rules) {
    for (const std::string& indicator : rule->input.indicators) {
      wanted.insert({.indicator = indicator,
                     .aggregate = rule->input.aggregate,
                     .scope = rule->input.scope,
                     .flags_not_judged = rule->input.flags_not_judged});
    }
  }
  wanted_.assign(wanted.begin(), wanted.end());
}

void BandMaker::BeginAttempt(const std::string& run, const v1::ModelShape&,
                             const rules::AttemptStart&) {
  if (curves_.empty()) runs_.push_back(run);
}

void BandMaker::OnStep(const model::ClosedStep& step) {
  const int64_t at = step.row.step;
  const auto before = tokens_before_.lower_bound(at);
  const uint64_t sum = before == tokens_before_.begin() ? 0 : std::prev(before)->second;
  tokens_before_[at] = sum + step.row.tokens;
  if (step.row.skipped) return;
  const double position =
      align_ == Align::kStep ? static_cast<double>(at) : static_cast<double>(sum + step.row.tokens);
  for (const Wanted& wanted : wanted_) {
    std::map<Key, std::vector<double>> found;
    for (const model::Sample& sample : step.samples) {
      if (sample.series.indicator != wanted.indicator) continue;
      if ((sample.flags & wanted.flags_not_judged) != 0) continue;
      const bool of_rank = sample.series.unit == model::Unit::kRank;
      if (wanted.scope == (of_rank ? rules::Input::Scope::kRun : rules::Input::Scope::kRank))
        continue;
      Key key{
          .indicator = wanted.indicator, .aggregate = wanted.aggregate, .series = sample.series};
      key.series.indicator.clear();
      if (wanted.aggregate != rules::Input::Aggregate::kEach) {
        key.series.unit = model::Unit::kNone;
        key.series.unit_id = 0;
        key.series.unit_name.clear();
      }
      found[std::move(key)].push_back(sample.value);
    }
    for (auto& [key, values] : found) {
      curves_[key][at] = {position, Reduce(wanted.aggregate, std::move(values))};
    }
  }
}

void BandMaker::EndRun() {
  for (const auto& [key, curve] : curves_) {
    for (const auto& [step, value] : curve) values_[key].push_back(value);
  }
  curves_.clear();
  tokens_before_.clear();
}

absl::StatusOr<std::string> BandMaker::Text(int bins) const {
  if (values_.empty()) {
    return absl::InvalidArgumentError("the runs have no value of an indicator of the rules");
  }
  std::vector<std::string> names;
  for (const std::string& run : runs_) names.push_back(YamlQuoted(run));
  std::string text = absl::StrCat("version: 1\nalign: ", align_ == Align::kStep ? "step" : "tokens",
                                  "\nruns: [", absl::StrJoin(names, ", "), "]\nseries:\n");
  for (const auto& [key, unsorted] : values_) {
    std::vector<Value> values = unsorted;
    std::sort(values.begin(), values.end(),
              [](const Value& a, const Value& b) { return a.position < b.position; });
    absl::StrAppend(&text, "  - indicator: ", key.indicator,
                    "\n    aggregate: ", rules::AggregateName(key.aggregate), "\n");
    if (key.series.layer != model::kNoLayer)
      absl::StrAppend(&text, "    layer: ", key.series.layer, "\n");
    if (key.series.unit == model::Unit::kTensor) {
      absl::StrAppend(&text, "    unit: tensor\n    unit_name: ", YamlQuoted(key.series.unit_name),
                      "\n");
    } else if (key.series.unit != model::Unit::kNone) {
      absl::StrAppend(&text, "    unit: ", model::UnitName(key.series.unit),
                      "\n    unit_id: ", key.series.unit_id, "\n");
    }
    // Bins of equally many values; values of one position stay together.
    std::vector<std::string> points;
    const size_t per_bin = std::max<size_t>(
        1, (values.size() + static_cast<size_t>(bins) - 1) / static_cast<size_t>(bins));
    for (size_t begin = 0; begin < values.size();) {
      size_t end = std::min(begin + per_bin, values.size());
      while (end < values.size() && values[end].position == values[end - 1].position) ++end;
      std::vector<double> sorted;
      for (size_t i = begin; i < end; ++i) sorted.push_back(values[i].value);
      std::sort(sorted.begin(), sorted.end());
      const rules::Baseline band = rules::RobustBaseline(sorted, 0);
      const double middle = 0.5 * (values[begin + (end - begin - 1) / 2].position +
                                   values[begin + (end - begin) / 2].position);
      points.push_back(absl::StrFormat("[%.15g, %.7g, %.4g]", middle, band.median, band.spread));
      begin = end;
    }
    absl::StrAppend(&text, "    points: [", absl::StrJoin(points, ", "), "]\n");
    if (text.size() > kFileBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the band of ", values_.size(), " series would be larger than ", kFileBytesMax,
          " bytes, which is the most that is read; use fewer bins than ", bins,
          ", or a rule file with fewer rules"));
    }
  }
  return text;
}

}  // namespace foreshock::backtest
