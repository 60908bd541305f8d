#include "daemon/store/head_reads.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"

namespace foreshock::store {
namespace {

// Visits the heads inside the stretches, with the stretch's index, in the order of their writing.
absl::Status VisitHeads(const ReadView& view, uint32_t run, absl::Span<const Stretch> stretches,
                        absl::FunctionRef<bool(size_t stretch, HeadReader* head)> visit) {
  absl::flat_hash_set<uint32_t> done;
  for (const Stretch& of_attempt : stretches) {
    if (!done.insert(of_attempt.attempt).second) continue;
    FORESHOCK_RETURN_IF_ERROR(view.ScanPrefix(
        Family::kHeads, HeadPrefix(run, of_attempt.attempt),
        [&](absl::string_view key, absl::string_view bytes) -> absl::StatusOr<bool> {
          HeadReader head;
          bool whole = head.Open(bytes);
          for (size_t i = 0; whole && i < stretches.size(); ++i) {
            const Stretch& stretch = stretches[i];
            const int64_t step = head.row().step;
            if (stretch.attempt == of_attempt.attempt && stretch.first <= step &&
                step <= stretch.last) {
              whole = visit(i, &head);
              break;
            }
          }
          if (!whole) return CorruptRow(FamilyName(Family::kHeads), key, "head", bytes);
          return true;
        }));
  }
  return absl::OkStatus();
}

}  // namespace

template <typename Row>
void KeepNewest(std::vector<Row>* rows) {
  const auto before = [](const Row& a, const Row& b) { return a.step < b.step; };
  const auto not_after = [](const Row& a, const Row& b) { return a.step >= b.step; };
  if (std::adjacent_find(rows->begin(), rows->end(), not_after) == rows->end()) return;
  std::stable_sort(rows->begin(), rows->end(), before);
  size_t kept = 0;
  for (size_t i = 0; i < rows->size(); ++i) {
    if (i + 1 < rows->size() && (*rows)[i + 1].step == (*rows)[i].step) continue;
    (*rows)[kept++] = (*rows)[i];
  }
  rows->resize(kept);
}

template void KeepNewest(std::vector<ChunkPoint>* rows);
template void KeepNewest(std::vector<model::StepRow>* rows);

absl::StatusOr<std::vector<OpenRows<ChunkPoint>>> ReadOpenPoints(
    const ReadView& view, uint32_t run, absl::Span<const Stretch> stretches,
    absl::Span<const uint32_t> series) {
  std::vector<OpenRows<ChunkPoint>> open(series.size(), OpenRows<ChunkPoint>(stretches.size()));
  if (series.empty()) return open;
  FORESHOCK_RETURN_IF_ERROR(VisitHeads(view, run, stretches, [&](size_t stretch, HeadReader* head) {
    // Both are in rising order of the series. Points after the last wanted series are not read.
    size_t wanted = 0;
    HeadPoint point;
    while (head->Next(&point)) {
      while (series[wanted] < point.series) {
        if (++wanted == series.size()) return true;
      }
      if (series[wanted] != point.series) continue;
      open[wanted][stretch].push_back({head->row().step, point.value, point.flags});
    }
    return head->whole();
  }));
  for (OpenRows<ChunkPoint>& of_series : open) {
    for (std::vector<ChunkPoint>& rows : of_series) KeepNewest(&rows);
  }
  return open;
}

absl::StatusOr<OpenRows<model::StepRow>> ReadOpenSteps(const ReadView& view, uint32_t run,
                                                       absl::Span<const Stretch> stretches) {
  OpenRows<model::StepRow> open(stretches.size());
  FORESHOCK_RETURN_IF_ERROR(VisitHeads(view, run, stretches, [&](size_t stretch, HeadReader* head) {
    open[stretch].push_back(head->row());
    return true;
  }));
  for (std::vector<model::StepRow>& rows : open) KeepNewest(&rows);
  return open;
}

}  // namespace foreshock::store
