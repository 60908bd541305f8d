// The names compete: how well each signature explains what fires at one step, in points, and which
// one explains the same better.
//
//   const Contest contest(view);
//   if (contest.Better(i).has_value()) return;  // that one is told instead
//
// While an alert fires, what has spoken for it goes on to count: evidence that ends does not unmake
// the episode. Only signatures with a `score` compete. One accounts for the alerts that its `when`,
// its confirmations and its positive terms name, and for those that it `explains`. Another one is
// better only if it accounts for every alert that speaks for this one: what nobody else explains is
// told.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "daemon/rules/condition.h"

namespace foreshock::rules {

// A name gives way to one that leads by so many points; one that is closer is named beside it.
inline constexpr int kLead = 2;

// Valid as long as what it was made of.
class Contest {
 public:
  explicit Contest(const AlertsView& view);

  // Of a signature that competes and whose `when` holds; else 0.
  int Points(size_t signature) const { return entries_[signature].points; }
  // Whether it has points enough to be told: one, or it does not compete.
  bool Eligible(size_t signature) const;
  // The best of those that account for all that speaks for this one and have more points than it,
  // or as many and stand further up. With `lead`: at least so many more.
  std::optional<size_t> Better(size_t signature, int lead = 0) const;
  // The best other one that shares evidence with this one and has no fewer points less `lead`.
  std::optional<size_t> NextTo(size_t signature, int lead) const;

 private:
  struct Entry {
    bool competes = false;
    bool candidate = false;  // `when` holds, or its alert fires and something of it is there
    int points = 0;
    std::vector<AlertRef> evidence;  // rules that fire and speak for it
  };

  bool AccountsFor(size_t signature, const std::vector<AlertRef>& evidence) const;

  const AlertsView& view_;
  std::vector<Entry> entries_;  // of each signature
};

}  // namespace foreshock::rules
