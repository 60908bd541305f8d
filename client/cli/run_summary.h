// Was the warning early? The first warning of a run against the step at which its loss broke.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

struct RunSummary {
  std::string run;
  std::optional<v1::Alert> first_warning;  // of severity warning or critical, by firing step
  std::optional<int64_t> loss_break_step;  // of the live lineage, daemon/rules/loss_break.h
  std::optional<int64_t> last_step;
  std::optional<v1::Judged> judged;         // up to the newest step; unset: not known
  std::vector<v1::RuleJudging> not_judged;  // the rules that have judged no row
  std::string not_judged_unknown;           // why those are not known; "": they are

  // Steps from the warning to the break; negative: it came after. Unset without one or the other.
  std::optional<int64_t> lead_steps() const;
};

absl::StatusOr<RunSummary> Summarise(Connection& daemon, const std::string& run);

}  // namespace foreshock::cli
