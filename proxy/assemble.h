// Writes a proxy's directory so that it appears under its name only when it is whole. Until then it
// is OUT.partial: each file is written under a temporary name, synced and renamed; at the end the
// directory is. What an earlier attempt left is used again.
//
//   FORESHOCK_RETURN_IF_ERROR(CheckOutput(checkpoint, "proxy"));
//   FORESHOCK_ASSIGN_OR_RETURN(const Assembled done,
//                              Assemble(checkpoint, plan, cut, "proxy", progress));
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/checkpoint.h"
#include "proxy/plan.h"
#include "proxy/slice.h"

namespace foreshock::proxy {

// Gets the bytes of shards that are there and the file that is written now.
using OnBytes = std::function<void(uint64_t done, const std::string& file)>;

struct Assembled {
  size_t shards_written = 0;
  size_t shards_kept = 0;  // of an earlier attempt
};

// `out` must not exist, or lack only the last step of an earlier attempt; it must lie in a
// directory that does exist, and not inside the source.
absl::Status CheckOutput(const Checkpoint& checkpoint, const std::string& out);

// One process at a time may write one OUT. After an error OUT does not exist and OUT.partial holds
// what is whole, for the same call again.
absl::StatusOr<Assembled> Assemble(const Checkpoint& checkpoint, const Plan& plan, const Cut& cut,
                                   const std::string& out, const OnBytes& on_bytes);

}  // namespace foreshock::proxy
