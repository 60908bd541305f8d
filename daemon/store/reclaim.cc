#include "daemon/store/reclaim.h"

#include <algorithm>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"
#include "rocksdb/convenience.h"

namespace foreshock::store {

absl::Status Reclaim(const DatabaseHolder& holder, uint32_t run,
                     absl::Span<const Family> removed_whole) {
  FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder.Acquire());
  const std::string begin_key = RunPrefix(run);
  const std::string end_key = PrefixEnd(begin_key);
  const rocksdb::Slice begin(begin_key);
  const rocksdb::Slice end(end_key);
  for (const Family family : kAllFamilies) {
    rocksdb::ColumnFamilyHandle* handle = lease->family(family);
    rocksdb::Status status;
    // The removal itself is newer than these files and in none of them.
    if (std::find(removed_whole.begin(), removed_whole.end(), family) != removed_whole.end()) {
      status =
          rocksdb::DeleteFilesInRange(lease->db(), handle, &begin, &end, /*include_end=*/false);
    }
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    if (status.ok()) status = lease->db()->CompactRange(options, handle, &begin, &end);
    FORESHOCK_RETURN_IF_ERROR(FromRocks(status, "store: cannot give space back"));
  }
  return absl::OkStatus();
}

}  // namespace foreshock::store
