// Points or buckets of many series as a stream of bounded responses.
//
//   PointStream stream(store, {.run = "exp-42", .series = keys, .limit = 1'000});
//   while (true) {
//     FORESHOCK_ASSIGN_OR_RETURN(auto response, stream.Next());
//     if (!response.has_value()) break;
//   }
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/store/store.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::query {

// Read piece by piece: nothing of the store is held between two pieces, so a slow reader costs
// nothing but the piece, at most kRowsPerRead points. Thread-compatible.
class PointStream {
 public:
  static constexpr int kRowsPerResponse = 1'000;
  static constexpr uint64_t kRowsPerRead = 10'000;
  static constexpr size_t kSeriesPerRead = 1'024;

  struct Query {
    std::string run{};
    std::vector<model::SeriesKey> series{};  // sorted
    store::StepRange range{};
    int64_t bucket_steps = 1;  // a power of two; 1: points
    uint64_t limit = 1;        // points or buckets in all
    // Every answer with points says so; there is one without any if there are none.
    std::optional<int64_t> downsampled_before{};
  };

  PointStream(const store::Store* store, Query query);

  // Goes on where an answer to the same query was truncated. InvalidArgument for a text that this
  // class did not give.
  absl::Status ContinueAt(absl::string_view continuation);

  // The next response, with at most kRowsPerResponse rows; none after the last.
  absl::StatusOr<std::optional<v1::QueryPointsResponse>> Next();

 private:
  absl::Status Read();
  v1::QueryPointsResponse& ResponseFor(const model::SeriesKey& key);
  std::string Continuation() const;

  const store::Store* const store_;
  const Query query_;
  uint64_t left_;      // of the limit
  size_t index_ = 0;   // of the series that comes next
  int64_t next_step_;  // of that series
  bool ended_ = false;
  bool answered_ = false;  // there has been a response
  std::deque<v1::QueryPointsResponse> ready_;
};

}  // namespace foreshock::query
