#include "daemon/pipeline/inbox.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace foreshock::pipeline {
namespace {

size_t ReservedBy(const Work& work) {
  const auto* report = std::get_if<ReportWork>(&work);
  return report == nullptr ? 0 : report->bytes;
}

}  // namespace

absl::Status Inbox::DrainingError() {
  return absl::UnavailableError("the daemon is shutting down; reconnect in a moment");
}

absl::Status Inbox::Reserve(size_t bytes) {
  if (draining_) return DrainingError();
  if (!stats_->store_writable) {
    return absl::ResourceExhaustedError(
        "the store cannot be written (see the daemon's log); nothing is taken until it can");
  }
  const uint64_t before = stats_->queue_bytes.fetch_add(bytes);
  if (before > 0 && before + bytes > options_.bytes_max) {
    stats_->queue_bytes -= bytes;
    ++stats_->queue_refusals;
    return absl::ResourceExhaustedError(
        absl::StrCat("the ingest queue holds ", before, " of ", options_.bytes_max, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status Inbox::Put(Work work) {
  const size_t reserved = ReservedBy(work);
  if (queue_.TryPush(std::move(work), 0)) return absl::OkStatus();
  stats_->queue_bytes -= reserved;
  if (queue_.closed()) return DrainingError();
  ++stats_->queue_refusals;
  return absl::ResourceExhaustedError(
      absl::StrCat("the ingest queue holds ", options_.items_max, " items"));
}

void Inbox::PutAlways(Work work) {
  // A closed inbox means that the pipeline has stopped: nobody is left to be told.
  (void)queue_.Push(std::move(work), 0);
}

}  // namespace foreshock::pipeline
