// Reports that are larger than one message may be.
#pragma once

#include <cstddef>
#include <vector>

#include "foreshock/v1/ingest.pb.h"

namespace foreshock::client_internal {

// The report as parts of at most `bytes_max` serialised bytes each, cut between summaries, which
// keep their order. A single summary larger than that makes a part of its own, over the limit.
// Tokens are said by the first part, last_of_step by the last.
std::vector<v1::Report> Split(v1::Report report, size_t bytes_max);

}  // namespace foreshock::client_internal
