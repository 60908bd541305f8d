// Laws of names that compete, on random signatures and random alerts.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::property {
namespace {

using rules::MakeSample;
using rules::TestRun;

constexpr int kAlerts = 6;
constexpr int kNames = 5;

struct RandomName {
  std::set<int> when;  // any of them
  std::map<int, int> points;
  std::set<int> explains;

  bool Candidate(const std::set<int>& firing) const {
    return std::any_of(when.begin(), when.end(), [&](int a) { return firing.contains(a); });
  }
  int Points(const std::set<int>& firing) const {
    int sum = 0;
    for (const auto& [alert, points] : points) sum += firing.contains(alert) ? points : 0;
    return sum;
  }
  // Alerts that fire and speak for it.
  std::set<int> Evidence(const std::set<int>& firing) const {
    std::set<int> evidence;
    for (const int a : firing) {
      const auto term = points.find(a);
      if (when.contains(a) || (term != points.end() && term->second > 0)) evidence.insert(a);
    }
    return evidence;
  }
  bool AccountsFor(const std::set<int>& evidence) const {
    return std::all_of(evidence.begin(), evidence.end(), [this](int a) {
      const auto term = points.find(a);
      return when.contains(a) || explains.contains(a) || (term != points.end() && term->second > 0);
    });
  }
};

std::set<int> Draw(std::mt19937* random, double share) {
  std::set<int> drawn;
  for (int a = 0; a < kAlerts; ++a) {
    if (std::bernoulli_distribution(share)(*random)) drawn.insert(a);
  }
  return drawn;
}

std::string AlertName(int alert) { return absl::StrCat("a", alert); }

std::string NamesOf(const std::set<int>& alerts) {
  std::vector<std::string> names;
  for (const int a : alerts) names.push_back(AlertName(a));
  return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
}

std::vector<RandomName> DrawNames(std::mt19937* random) {
  std::vector<RandomName> names(kNames);
  for (RandomName& name : names) {
    while (name.when.empty()) name.when = Draw(random, 0.3);
    for (const int a : name.when) {
      name.points[a] = std::uniform_int_distribution<int>(1, 3)(*random);
    }
    for (const int a : Draw(random, 0.2)) {
      if (!name.when.contains(a)) name.points[a] = -1;
    }
    name.explains = Draw(random, 0.3);
  }
  return names;
}

std::string RulesText(const std::vector<RandomName>& names) {
  std::string text =
      "groups:\n  - name: g\n    defaults: {labels: {severity: info}, warm_up: judge}\n"
      "    rules:\n";
  for (int a = 0; a < kAlerts; ++a) {
    absl::StrAppend(&text, "      - {alert: ", AlertName(a), ", indicator: train.", AlertName(a),
                    ", threshold: {above: 1}}\n");
  }
  absl::StrAppend(&text, "signatures:\n");
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> terms;
    for (const auto& [alert, points] : names[i].points) {
      terms.push_back(absl::StrCat("{if: ", AlertName(alert), ", points: ", points, "}"));
    }
    absl::StrAppend(&text, "  - {signature: n", i, ", when: {any: ", NamesOf(names[i].when),
                    "}, score: [", absl::StrJoin(terms, ", "),
                    "], explains: ", NamesOf(names[i].explains),
                    ", labels: {severity: warning, fault: f}}\n");
  }
  return text;
}

class Course : public TestRun {
 public:
  using TestRun::TestRun;
  // The names that fire after a step at which these alerts do.
  std::set<size_t> Next(const std::set<int>& firing) {
    std::vector<model::Sample> samples;
    for (int a = 0; a < kAlerts; ++a) {
      samples.push_back(
          MakeSample(absl::StrCat("train.", AlertName(a)), firing.contains(a) ? 2 : 0));
    }
    const size_t before = rows.size();
    Step(step_++, samples);
    for (size_t i = before; i < rows.size(); ++i) {
      const v1::Alert& alert = rows[i].alert();
      if (alert.fault().empty()) continue;
      const size_t name = std::stoul(alert.rule().substr(1));
      if (alert.state() == v1::ALERT_STATE_FIRING) {
        told_.insert(name);
      } else {
        told_.erase(name);
      }
    }
    return told_;
  }

 private:
  int64_t step_ = 0;
  std::set<size_t> told_;
};

// Which names break the law that no alert hides another: with points, not told, and no other one
// accounts for the same that has as many points, or fires and had them.
std::vector<size_t> Hidden(const std::vector<RandomName>& names, const std::set<int>& firing,
                           const std::set<size_t>& told) {
  std::vector<size_t> hidden;
  for (size_t i = 0; i < names.size(); ++i) {
    if (told.contains(i) || !names[i].Candidate(firing) || names[i].Points(firing) < 1) continue;
    const std::set<int> evidence = names[i].Evidence(firing);
    const bool instead = std::any_of(names.begin(), names.end(), [&](const RandomName& other) {
      const bool fires = told.contains(static_cast<size_t>(&other - names.data()));
      return &other != &names[i] && other.Candidate(firing) && other.AccountsFor(evidence) &&
             (fires || other.Points(firing) >= names[i].Points(firing));
    });
    if (!instead) hidden.push_back(i);
  }
  return hidden;
}

TEST(ContestPropertyTest, NoAlertHidesAnother) {
  int told_beside = 0;
  for (int seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::vector<RandomName> names = DrawNames(&random);
    Course course(RulesText(names));
    for (int step = 0; step < 20; ++step) {
      const std::set<int> firing = Draw(&random, 0.4);
      course.Next(firing);
      // A name that ends at a step makes room at the next one.
      const std::set<size_t> told = course.Next(firing);
      EXPECT_TRUE(Hidden(names, firing, told).empty()) << "seed " << seed << " step " << step;
      told_beside += told.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(told_beside, 100);
}

// Whatever fired first: the best name of what fires now is told, or one that fires accounts for it.
TEST(ContestPropertyTest, TheBestNameIsToldWhateverCameBefore) {
  for (int seed = 0; seed < 200; ++seed) {
    std::mt19937 random(1000 + seed);
    const std::vector<RandomName> names = DrawNames(&random);
    const std::set<int> firing = Draw(&random, 0.5);
    size_t best = names.size();
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i].Candidate(firing) || names[i].Points(firing) < 1) continue;
      if (best == names.size() || names[i].Points(firing) > names[best].Points(firing)) best = i;
    }
    Course straight(RulesText(names));
    const std::set<size_t> told = straight.Next(firing);
    if (best == names.size()) {
      EXPECT_TRUE(told.empty()) << "seed " << seed;
      continue;
    }
    EXPECT_TRUE(told.contains(best)) << "seed " << seed;
    Course late(RulesText(names));
    for (int step = 0; step < 10; ++step) late.Next(Draw(&random, 0.4));
    const std::set<size_t> told_late = late.Next(firing);
    const std::set<int> evidence = names[best].Evidence(firing);
    EXPECT_TRUE(
        std::any_of(told_late.begin(), told_late.end(),
                    [&](size_t name) { return name == best || names[name].AccountsFor(evidence); }))
        << "seed " << seed;
  }
}

// The control: a list of alerts that must be absent breaks the law.
TEST(ContestPropertyTest, TheLawFindsANameThatIsHeldBack) {
  RandomName name{.when = {0}, .points = {{0, 1}}, .explains = {}};
  EXPECT_EQ(Hidden({name}, {0}, {}), std::vector<size_t>{0});
  RandomName graver{.when = {1}, .points = {{1, 2}}, .explains = {0}};
  EXPECT_TRUE(Hidden({name, graver}, {0, 1}, {1}).empty());
  EXPECT_EQ(Hidden({name, graver}, {0}, {}), std::vector<size_t>{0});
}

}  // namespace
}  // namespace foreshock::property
