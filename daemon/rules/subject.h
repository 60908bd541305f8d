// A series of a rule, or what its units in a layer come to: what is known of it, what was fed of it
// at this step, and how it is judged.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "daemon/model/series.h"
#include "daemon/rules/aggregate.h"
#include "daemon/rules/band.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/series_judge.h"

namespace foreshock::rules {

struct Subject {
  Subject(model::SeriesKey key, const Rule& rule) : series(std::move(key)), judge(rule) {}

  model::SeriesKey series;  // without an indicator: the rule has one, or combines several
  SeriesJudge judge;
  StepValues values{};  // of this step
  uint32_t flags = 0;
  std::shared_ptr<const BandCurve> curve{};  // of a reference; null: it does not have the series
  // Of its samples, judged or not.
  int64_t last_step = -1;
  int64_t gap = 0;       // between its newest two
  int64_t interval = 0;  // expected between two, 0: not known yet
  // Steps between the two weight snapshots of its attn.delta* values: the usual, and of the newest
  // sample where that is another; 0: none.
  int64_t window = 0;
  int64_t other_window = 0;
  double newest = std::numeric_limits<double>::quiet_NaN();  // before `siblings` divides it
};

}  // namespace foreshock::rules
