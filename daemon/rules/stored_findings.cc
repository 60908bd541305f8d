#include "daemon/rules/stored_findings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace foreshock::rules {

std::vector<model::Finding> StoredFindings(const model::ClosedStep& closed,
                                           const RankScalars& rank_scalars) {
  std::vector<model::Finding> findings;
  for (const model::Sample& sample : closed.samples) {
    if (sample.series.indicator != "train.nonfinite") continue;
    model::Finding finding;
    finding.name = sample.series.unit_name;
    finding.count = static_cast<uint64_t>(sample.value);
    const size_t before = findings.size();
    const auto senders = rank_scalars.find(finding.name);
    if (senders != rank_scalars.end()) {
      std::vector<int64_t> missing(senders->second.begin(), senders->second.end());
      for (const model::Sample& other : closed.samples) {
        if (other.series.unit == model::Unit::kRank &&
            other.series.indicator == absl::StrCat("train.", finding.name)) {
          std::erase(missing, other.series.unit_id);
        }
      }
      std::sort(missing.begin(), missing.end());
      for (const int64_t rank : missing) {
        finding.rank = static_cast<uint32_t>(rank);
        findings.push_back(finding);
        finding.count = 0;  // the sum is stored, not the parts
      }
    }
    if (findings.size() == before) findings.push_back(finding);
  }
  return findings;
}

}  // namespace foreshock::rules
