// From what /metrics shows to the requests of remote write.
//
//   SampleEncoder encoder({{"job", "foreshock"}});
//   for (EncodedRequest& request : encoder.Encode(exporter.Read(), clock.Now()))
//   Post(request.body);
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "daemon/exporter/exporter.h"

namespace foreshock::remote_write {

struct EncodedRequest {
  std::string body{};  // a WriteRequest as one snappy block
  size_t samples = 0;
};

// Thread-compatible.
class SampleEncoder {
 public:
  static constexpr size_t kSamplesPerRequest = 2000;
  static constexpr absl::Duration kMetadataInterval = absl::Minutes(1);

  // Labels for every series that has none of that name.
  explicit SampleEncoder(std::map<std::string, std::string> external_labels);

  // All values as of `now`, to the millisecond. A series that was there the last time and is not
  // any more gets a stale marker, so that nobody goes on seeing its last value. The first time and
  // then every kMetadataInterval the types and help texts come along.
  std::vector<EncodedRequest> Encode(const std::vector<exporter::ExportedFamily>& families,
                                     absl::Time now);

 private:
  const std::map<std::string, std::string> external_labels_;
  absl::flat_hash_set<std::string> known_;  // series of the last time: their serialised labels
  absl::Time metadata_at_ = absl::InfinitePast();
};

}  // namespace foreshock::remote_write
