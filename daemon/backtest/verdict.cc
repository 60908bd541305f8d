#include "daemon/backtest/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {
namespace {

// What the set says of an alert by that name.
struct RuleHead {
  size_t place = 0;  // rules before signatures, each in file order
  bool signature = false;
  std::string fault;
};

absl::flat_hash_map<std::string, RuleHead> Heads(const rules::RuleSet& rules) {
  const auto& set = dynamic_cast<const rules::CompiledRules&>(rules);
  absl::flat_hash_map<std::string, RuleHead> heads;
  for (const auto& rule : set.rules) heads[rule->name] = {heads.size(), false, rule->fault};
  for (const auto& signature : set.signatures) {
    heads[signature->name] = {heads.size(), true, signature->fault};
  }
  return heads;
}

// Of two warnings the earlier; of equals the graver, then the one that names a fault.
bool Earlier(const AlertSpan& a, const AlertSpan& b) {
  if (a.warning->step != b.warning->step) return a.warning->order < b.warning->order;
  const auto named = [](const AlertSpan& span) {
    return !span.first.fault().empty() && span.first.fault() != "unknown";
  };
  if (rules::SeverityRank(a.first.severity()) != rules::SeverityRank(b.first.severity())) {
    return rules::SeverityRank(a.first.severity()) > rules::SeverityRank(b.first.severity());
  }
  if (named(a) != named(b)) return named(a);
  return a.warning->order < b.warning->order;
}

std::optional<int64_t> Median(std::vector<int64_t> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];  // of an even number the smaller: it promises less
}

bool IsIll(const RunLabel& label) {
  return label.expected == RunLabel::Expected::kAlarm ||
         label.expected == RunLabel::Expected::kWarn;
}

// What a warning should come before.
std::optional<int64_t> Deadline(const RunVerdict& verdict) {
  return verdict.harm_step.has_value() ? verdict.harm_step : verdict.loss_break_step;
}

bool SameLayers(const v1::Alert& alert, const std::vector<uint32_t>& wanted) {
  std::vector<uint32_t> layers(alert.layers().begin(), alert.layers().end());
  std::sort(layers.begin(), layers.end());
  return !alert.all_layers() && layers == wanted;
}

// What the first warning was worth, once the verdict knows it.
void JudgeFirstWarning(const RunResult& result, const RunLabel* label, RunVerdict* verdict) {
  const AlertSpan& first = result.alerts[*verdict->first_warning];
  if (const std::optional<int64_t> deadline = Deadline(*verdict); deadline.has_value()) {
    verdict->lead_steps = *deadline - first.warning->step;
  }
  if (label == nullptr || !IsIll(*label)) return;
  if (!label->fault.empty()) verdict->named = first.first.fault() == label->fault;
  if (!label->layers.empty()) verdict->layers_right = SameLayers(first.last, label->layers);
}

// "" if the verdict holds.
std::string WhatIsWrong(const RunLabel& label, const RunResult& result, const RunVerdict& verdict) {
  if (label.expected == RunLabel::Expected::kQuiet) {
    return verdict.first_warning.has_value() ? "a quiet run was warned about" : "";
  }
  if (!IsIll(label)) return "";
  if (!verdict.first_warning.has_value()) return "no warning";
  const int64_t first = result.alerts[*verdict.first_warning].warning->step;
  const int64_t injected = *label.injection_step;
  if (first < injected) return "a warning before the injection";
  const std::optional<int64_t> deadline = Deadline(verdict);
  if (label.expected == RunLabel::Expected::kWarn || !deadline.has_value()) return "";
  if (*deadline - injected > kCloseSteps) {
    if (first < *deadline) return "";
    return verdict.harm_step.has_value() ? "the warning came after the harm"
                                         : "the warning came after the loss break";
  }
  return first <= injected + kSlackSteps ? "" : "the warning came too late";
}

}  // namespace

RunVerdict JudgeRun(const rules::RuleSet& rules, const RunResult& result, const RunLabel* label) {
  const auto heads = Heads(rules);
  RunVerdict verdict;
  verdict.loss_break_step = result.loss_break_step;
  if (label != nullptr) {
    verdict.split = label->split;
    verdict.fault = label->fault;
    verdict.injection_step = label->injection_step;
    if (label->divergence_known) verdict.loss_break_step = label->divergence_step;
    verdict.harm_step = label->harm_step;
  }
  const bool quiet = label != nullptr && label->expected == RunLabel::Expected::kQuiet;
  const bool faulty = label != nullptr && IsIll(*label);
  verdict.healthy_known = quiet || faulty;
  const auto healthy = [&](int64_t step) {
    return quiet || (faulty && step < *label->injection_step);
  };
  if (quiet) verdict.healthy_steps = result.steps.size();
  if (faulty) verdict.healthy_steps = result.StepsBefore(*label->injection_step);

  std::map<std::string, size_t> place;
  for (size_t i = 0; i < result.alerts.size(); ++i) {
    const AlertSpan& span = result.alerts[i];
    if (span.warning.has_value()) {
      if (!verdict.first_warning.has_value() ||
          Earlier(span, result.alerts[*verdict.first_warning])) {
        verdict.first_warning = i;
      }
      if (healthy(span.warning->step)) ++verdict.false_alarms;
      if (span.critical.has_value() && healthy(span.critical->step)) ++verdict.false_critical;
    }
    const RuleHead& head = heads.at(span.first.rule());
    const auto [found, added] = place.try_emplace(span.first.rule(), verdict.outcomes.size());
    if (added) {
      RuleOutcome outcome;
      outcome.rule = span.first.rule();
      outcome.signature = head.signature;
      outcome.fault = head.fault;
      outcome.severity = span.severity;
      outcome.first_step = span.fired.step;
      outcome.first_alert = i;
      verdict.outcomes.push_back(std::move(outcome));
    }
    RuleOutcome& outcome = verdict.outcomes[found->second];
    ++outcome.alerts;
    outcome.last_alert = i;
    if (rules::SeverityRank(span.severity) > rules::SeverityRank(outcome.severity))
      outcome.severity = span.severity;
    if (healthy(span.fired.step)) {
      ++outcome.healthy_alerts;
    } else if (faulty && !outcome.fault_step.has_value()) {
      outcome.fault_step = span.fired.step;
    }
  }
  for (RuleOutcome& outcome : verdict.outcomes) {
    const std::optional<int64_t> step =
        verdict.healthy_known ? outcome.fault_step : outcome.first_step;
    if (step.has_value() && Deadline(verdict).has_value()) {
      outcome.lead_steps = *Deadline(verdict) - *step;
    }
    if (faulty && !verdict.fault.empty() && !outcome.fault.empty() &&
        outcome.fault_step.has_value()) {
      outcome.named = outcome.fault == verdict.fault;
    }
  }
  if (verdict.first_warning.has_value()) JudgeFirstWarning(result, label, &verdict);
  if (label == nullptr) return verdict;
  if (label->expected == RunLabel::Expected::kUnscored) {
    verdict.kind = RunVerdict::Kind::kShown;
    return verdict;
  }
  verdict.reason = WhatIsWrong(*label, result, verdict);
  verdict.kind = verdict.reason.empty() ? RunVerdict::Kind::kHolds : RunVerdict::Kind::kMissed;
  return verdict;
}

std::vector<SplitSummary> SummariseRuns(const rules::RuleSet& rules,
                                        const std::vector<JudgedRun>& runs) {
  const auto heads = Heads(rules);
  std::vector<SplitSummary> splits;
  struct Leads {
    std::vector<int64_t> of_runs;
    std::map<std::string, std::vector<int64_t>> of_rules;
  };
  std::vector<Leads> leads;
  for (const JudgedRun& run : runs) {
    const RunVerdict& verdict = *run.verdict;
    const auto same = [&verdict](const SplitSummary& split) {
      return split.split == verdict.split;
    };
    size_t at = std::find_if(splits.begin(), splits.end(), same) - splits.begin();
    if (at == splits.size()) {
      splits.emplace_back();
      splits.back().split = verdict.split;
      leads.emplace_back();
    }
    SplitSummary& split = splits[at];
    ++split.runs;
    split.steps += run.result->steps.size();
    for (const AlertSpan& span : run.result->alerts) split.warnings += span.warning.has_value();
    split.healthy_steps += verdict.healthy_steps;
    split.false_alarms += verdict.false_alarms;
    split.false_critical += verdict.false_critical;
    const bool scored =
        verdict.kind == RunVerdict::Kind::kHolds || verdict.kind == RunVerdict::Kind::kMissed;
    const bool faulty = scored && verdict.injection_step.has_value();
    if (verdict.kind == RunVerdict::Kind::kMissed) ++split.missed;
    if (faulty) {
      ++split.faulty;
      if (verdict.kind == RunVerdict::Kind::kHolds) ++split.in_time;
      if (!verdict.fault.empty()) ++split.nameable;
      if (verdict.named.value_or(false)) ++split.named;
      if (verdict.layers_right.has_value()) ++split.layered;
      if (verdict.layers_right.value_or(false)) ++split.layers_right;
      if (verdict.lead_steps.has_value()) leads[at].of_runs.push_back(*verdict.lead_steps);
    } else if (scored) {
      ++split.quiet;
      if (verdict.kind == RunVerdict::Kind::kHolds) ++split.silent;
    }
    for (const RuleOutcome& outcome : verdict.outcomes) {
      const auto of_it = [&outcome](const SplitSummary::OfRule& rule) {
        return rule.rule == outcome.rule;
      };
      auto rule = std::find_if(split.rules.begin(), split.rules.end(), of_it);
      if (rule == split.rules.end()) {
        split.rules.push_back(
            {.rule = outcome.rule, .signature = outcome.signature, .severity = outcome.severity});
        rule = std::prev(split.rules.end());
      }
      if (rules::SeverityRank(outcome.severity) > rules::SeverityRank(rule->severity))
        rule->severity = outcome.severity;
      rule->healthy_alerts += outcome.healthy_alerts;
      if (faulty && outcome.fault_step.has_value()) ++rule->faults_seen;
      if (outcome.named.has_value()) ++rule->nameable;
      if (outcome.named.value_or(false)) ++rule->named;
      if (faulty && outcome.lead_steps.has_value()) {
        leads[at].of_rules[outcome.rule].push_back(*outcome.lead_steps);
      }
    }
  }
  for (size_t i = 0; i < splits.size(); ++i) {
    splits[i].median_lead_steps = Median(leads[i].of_runs);
    for (SplitSummary::OfRule& rule : splits[i].rules) {
      rule.median_lead_steps = Median(leads[i].of_rules[rule.rule]);
    }
    std::sort(splits[i].rules.begin(), splits[i].rules.end(),
              [&heads](const SplitSummary::OfRule& a, const SplitSummary::OfRule& b) {
                return heads.at(a.rule).place < heads.at(b.rule).place;
              });
  }
  return splits;
}

double PerTenThousand(uint64_t events, uint64_t steps) {
  return steps == 0 ? 0 : 1e4 * static_cast<double>(events) / static_cast<double>(steps);
}

double PerTenThousandUpper(uint64_t events, uint64_t steps) {
  if (steps == 0) return 0;
  const double n = static_cast<double>(events);
  if (n > 300) {  // the sum below would underflow; its normal approximation is good to 0.1 % here
    return 1e4 * std::pow(std::sqrt(n + 1) + 0.8224, 2) / static_cast<double>(steps);
  }
  // The mean at which so few events have a chance of 5 %.
  const auto chance = [events](double mean) {
    double term = std::exp(-mean);
    double sum = term;
    for (uint64_t k = 1; k <= events; ++k) {
      term *= mean / static_cast<double>(k);
      sum += term;
    }
    return sum;
  };
  double low = 0;
  double high = 3 * n + 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (chance(middle) > 0.05 ? low : high) = middle;
  }
  return 1e4 * low / static_cast<double>(steps);
}

}  // namespace foreshock::backtest
