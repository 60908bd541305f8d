#include "daemon/backtest/routes.h"

#include <algorithm>
#include <iterator>

#include "daemon/rules/parse.h"

namespace foreshock::backtest {
namespace {

constexpr size_t kRoutesMax = 4096;

void Simplify(std::vector<Route>* routes) {
  std::sort(routes->begin(), routes->end(), [](const Route& a, const Route& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::vector<Route> kept;
  for (Route& route : *routes) {
    const bool has_shorter = std::any_of(kept.begin(), kept.end(), [&route](const Route& other) {
      return std::includes(route.begin(), route.end(), other.begin(), other.end());
    });
    if (!has_shorter) kept.push_back(std::move(route));
  }
  *routes = std::move(kept);
}

std::vector<Route> Both(const std::vector<Route>& left, const std::vector<Route>& right) {
  std::vector<Route> routes;
  for (const Route& a : left) {
    for (const Route& b : right) {
      Route joined;
      std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(joined));
      routes.push_back(std::move(joined));
      if (routes.size() > kRoutesMax) return routes;
    }
  }
  Simplify(&routes);
  return routes;
}

void AddLeaves(const rules::Condition& condition, const rules::CompiledRules& rules,
               std::vector<Route>* out) {
  for (const rules::Condition& child : condition.of) AddLeaves(child, rules, out);
  if (!condition.of.empty()) return;
  if (condition.alert.signature) {
    AddLeaves(rules.signatures[condition.alert.index]->when, rules, out);
  } else {
    out->push_back({condition.alert.index});
  }
}

std::vector<Route> Ways(const rules::Condition& condition, const rules::CompiledRules& rules);

// The ways in which at least `wanted` of the conditions hold.
std::vector<Route> AtLeast(size_t wanted, const std::vector<rules::Condition>& of,
                           const rules::CompiledRules& rules) {
  // by_count[n]: with n of the conditions seen so far.
  std::vector<std::vector<Route>> by_count(wanted + 1);
  by_count[0].push_back({});
  for (const rules::Condition& condition : of) {
    const std::vector<Route> ways = Ways(condition, rules);
    for (size_t n = wanted; n-- > 0;) {
      for (Route& route : Both(by_count[n], ways)) by_count[n + 1].push_back(std::move(route));
      if (by_count[n + 1].size() > kRoutesMax) return by_count[n + 1];
    }
  }
  Simplify(&by_count[wanted]);
  return by_count[wanted];
}

std::vector<Route> Ways(const rules::Condition& condition, const rules::CompiledRules& rules) {
  switch (condition.kind) {
    case rules::Condition::Kind::kAlert:
    case rules::Condition::Kind::kHealed:
    case rules::Condition::Kind::kBrewing:
      if (condition.alert.signature) {
        return Ways(rules.signatures[condition.alert.index]->when, rules);
      }
      return {{condition.alert.index}};
    case rules::Condition::Kind::kAll:
    case rules::Condition::Kind::kSameLayer:
      return AtLeast(condition.of.size(), condition.of, rules);
    case rules::Condition::Kind::kAny:
      return AtLeast(1, condition.of, rules);
    case rules::Condition::Kind::kAtLeast:
      return AtLeast(static_cast<size_t>(condition.at_least), condition.of, rules);
  }
  return {};
}

}  // namespace

std::vector<Route> RoutesTo(absl::string_view severity, const rules::CompiledRules& rules) {
  const int wanted = rules::SeverityRank(severity);
  std::vector<Route> routes;
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    if (rules::SeverityRank(rules.rules[i]->severity) >= wanted) routes.push_back({i});
  }
  for (const auto& held : rules.signatures) {
    const rules::Signature& signature = *held;
    std::vector<Route> ways = Ways(signature.when, rules);
    if (rules::SeverityRank(signature.severity) < wanted) {
      std::vector<Route> confirmed;
      for (const rules::Confirmation& confirmation : signature.confirmations) {
        if (rules::SeverityRank(confirmation.severity) < wanted) continue;
        for (Route& route : Both(ways, Ways(confirmation.when, rules))) {
          confirmed.push_back(std::move(route));
        }
      }
      ways = std::move(confirmed);
    }
    if (ways.size() > kRoutesMax) {
      ways.clear();
      AddLeaves(signature.when, rules, &ways);
    }
    routes.insert(routes.end(), ways.begin(), ways.end());
  }
  Simplify(&routes);
  return routes;
}

}  // namespace foreshock::backtest
