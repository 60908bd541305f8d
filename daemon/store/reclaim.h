// Gives the space of removed rows back to the file system.
//
//   FORESHOCK_RETURN_IF_ERROR(Reclaim(holder, run, kAllFamilies));   // after the run was deleted
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/store/database_holder.h"

namespace foreshock::store {

// Compacts the run's range in every family. Files that hold rows of this run alone are deleted
// first, without being read, in the families of which all its rows were removed. Runs beside reads
// and writes.
absl::Status Reclaim(const DatabaseHolder& holder, uint32_t run,
                     absl::Span<const Family> removed_whole);

}  // namespace foreshock::store
