#include "daemon/store/damage.h"

#include <string>

#include "daemon/base/log.h"
#include "daemon/store/rocks_status.h"

namespace foreshock::store {

void DamageWatch::Note(const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return;
  ++found_;
  base::LogEvery("store damage", base::LogLevel::kError, "store",
                 "the medium has damaged the store; what is damaged cannot be read, the rest can",
                 {{"error", std::string(status.message())}});
}

void DamageWatch::OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) {
  if (!error->IsCorruption()) return;
  Note(FromRocks(*error, "store: in the background"));
  if (reason != rocksdb::BackgroundErrorReason::kCompaction) return;
  compaction_failed_ = true;
  *error = rocksdb::Status::OK();
}

}  // namespace foreshock::store
