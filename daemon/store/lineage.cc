#include "daemon/store/lineage.h"

#include <algorithm>

namespace foreshock::store {

std::vector<Stretch> Stretches(absl::Span<const model::AttemptRow> attempts,
                               const StepRange& range) {
  if (range.first > range.last) return {};
  if (range.attempt.has_value()) return {{*range.attempt, range.first, range.last}};

  std::vector<Stretch> newest_first;
  for (const model::AttemptRow& row : attempts) {
    if (!row.has_first_step() || !row.has_last_step()) continue;
    const Stretch closed{row.number(), std::max<int64_t>(row.first_step(), range.first),
                         std::min<int64_t>(row.last_step(), range.last)};
    if (closed.first <= closed.last) newest_first.push_back(closed);
  }
  std::sort(newest_first.begin(), newest_first.end(),
            [](const Stretch& a, const Stretch& b) { return a.attempt > b.attempt; });

  // `taken` is in step order and disjoint; each older attempt fills the gaps that are left.
  std::vector<Stretch> taken;
  for (const Stretch& attempt : newest_first) {
    std::vector<Stretch> merged;
    int64_t from = attempt.first;
    bool open = true;  // [from, attempt.last] may still have gaps
    for (const Stretch& newer : taken) {
      if (open && newer.first > from) {
        const int64_t to = std::min(attempt.last, newer.first - 1);
        if (from <= to) merged.push_back({attempt.attempt, from, to});
      }
      merged.push_back(newer);
      if (newer.last >= attempt.last) {
        open = false;
      } else if (newer.last >= from) {
        from = newer.last + 1;
      }
    }
    if (open) merged.push_back({attempt.attempt, from, attempt.last});
    taken = std::move(merged);
  }
  return taken;
}

}  // namespace foreshock::store
