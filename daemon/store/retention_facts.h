// What retention.h decides by, read from the store.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const RunFacts facts, ReadRunFacts(view, id, row, options, now));
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"
#include "daemon/store/read_view.h"
#include "daemon/store/retention.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/store.h"

namespace foreshock::store {

absl::StatusOr<RunFacts> ReadRunFacts(const ReadView& view, uint32_t run, const model::RunRow& row,
                                      const RetentionOptions& options, absl::Time now);

// Reads how far retention has got in an attempt. Without a row it has done nothing there.
absl::StatusOr<RetentionRow> ReadRetention(const ReadView& view, uint32_t run, uint32_t attempt);
// Reads the time of the attempt's newest step, in ns, also of a step that is gone; 0: not known.
absl::StatusOr<int64_t> NewestTime(const ReadView& view, uint32_t run,
                                   const model::AttemptRow& attempt);
// As Store::RawFrom.
absl::StatusOr<int64_t> ReadRawFrom(const ReadView& view, uint32_t run, const StepRange& range);

}  // namespace foreshock::store
