#include "tests/fault/store_blocks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::fault {
namespace {

constexpr int64_t kBucketSteps = 1024;

std::vector<model::SeriesKey> BlockSeries() {
  return {{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""},
          {"attn.delta2.entropy", 3, model::Unit::kHead, 7, ""}};
}

// Values are small integers, so that the mean of a part is exact.
double BlockValue(int64_t step) { return static_cast<double>(step); }

absl::Status NotAs(absl::string_view what, double found, double expected) {
  return absl::InternalError(absl::StrCat(what, " is ", found, ", not ", expected));
}

absl::Status CheckBucket(const store::Bucket& bucket, int64_t last) {
  const int64_t first_step = std::max<int64_t>(bucket.first_step, 1);
  const int64_t last_step = std::min(bucket.first_step + kBucketSteps - 1, last);
  const auto steps = static_cast<double>(last_step - first_step + 1);
  const std::string where = absl::StrCat(" of the bucket at ", bucket.first_step);
  if (static_cast<double>(bucket.count) != steps) {
    return NotAs(absl::StrCat("the count", where), static_cast<double>(bucket.count), steps);
  }
  if (bucket.min != BlockValue(first_step)) {
    return NotAs(absl::StrCat("the minimum", where), bucket.min, BlockValue(first_step));
  }
  if (bucket.max != BlockValue(last_step)) {
    return NotAs(absl::StrCat("the maximum", where), bucket.max, BlockValue(last_step));
  }
  return absl::OkStatus();
}

absl::Status CheckBuckets(const store::DiskStore& store, int64_t last) {
  const std::vector<model::SeriesKey> series = BlockSeries();
  std::vector<int64_t> buckets(series.size());
  absl::Status status;
  FORESHOCK_RETURN_IF_ERROR(store.Buckets(kBlockRun, series, {}, kBucketSteps,
                                          [&](size_t which, const store::Bucket& bucket) {
                                            ++buckets[which];
                                            status = CheckBucket(bucket, last);
                                            return status.ok();
                                          }));
  FORESHOCK_RETURN_IF_ERROR(status);
  for (const int64_t count : buckets) {
    const int64_t expected = last / kBucketSteps + 1;
    if (count != expected) {
      return NotAs("the number of buckets", static_cast<double>(count),
                   static_cast<double>(expected));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRaw(const store::DiskStore& store, int64_t last) {
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t raw_from, store.RawFrom(kBlockRun, {.first = 1}));
  if (raw_from > std::max<int64_t>(last - kBlockRawSteps + 1, 1)) {
    return NotAs("the first raw step", static_cast<double>(raw_from),
                 static_cast<double>(last - kBlockRawSteps));
  }
  const std::vector<model::SeriesKey> series = BlockSeries();
  std::vector<int64_t> next(series.size(), raw_from);
  absl::Status status;
  FORESHOCK_RETURN_IF_ERROR(store.Points(
      kBlockRun, series, {.first = raw_from}, [&](size_t which, const model::Point& point) {
        if (point.step != next[which] || point.value != BlockValue(point.step)) {
          status = NotAs("a raw step", static_cast<double>(point.step),
                         static_cast<double>(next[which]));
        }
        ++next[which];
        return status.ok();
      }));
  FORESHOCK_RETURN_IF_ERROR(status);
  for (const int64_t end : next) {
    if (end != last + 1) {
      return NotAs("the end of a series", static_cast<double>(end - 1), static_cast<double>(last));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBlocks(const store::DiskStore& store, int64_t last) {
  std::string findings;
  FORESHOCK_RETURN_IF_ERROR(
      store
          .Verify(
              {.finding = [&findings](const auto& finding) { findings += finding.what + "; "; }})
          .status());
  if (!findings.empty()) return absl::DataLossError(findings);
  if (last == 0) return absl::OkStatus();
  FORESHOCK_RETURN_IF_ERROR(CheckBuckets(store, last));
  return CheckRaw(store, last);
}

}  // namespace

store::StoreBatch BlockAfter(int64_t last) {
  store::StoreBatch batch;
  batch.runs.emplace_back().set_name(kBlockRun);
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_first_step(1);
  attempt.set_last_step(last + kBlockSteps);
  batch.attempts.push_back({kBlockRun, attempt});
  for (int64_t step = last + 1; step <= last + kBlockSteps; ++step) {
    model::ClosedStep closed;
    closed.run = kBlockRun;
    closed.row.attempt = 1;
    closed.row.step = step;
    for (const model::SeriesKey& series : BlockSeries()) {
      closed.samples.push_back({series, BlockValue(step), 0});
    }
    batch.steps.push_back(std::move(closed));
  }
  return batch;
}

int64_t LastBlockStep(const store::Store& store) {
  const auto runs = store.Runs();
  if (!runs.ok()) return -1;
  if (runs->empty()) return 0;
  const auto attempts = store.Attempts(kBlockRun);
  if (!attempts.ok() || attempts->size() != 1) return -1;
  return attempts->front().last_step();
}

std::string CheckHoldsBlocks(const store::DiskStore& store, int64_t last) {
  const absl::Status status = CheckBlocks(store, last);
  return status.ok() ? "" : std::string(status.message());
}

}  // namespace foreshock::fault
