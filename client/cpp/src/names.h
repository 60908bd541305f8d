// The interned names of one client. A name is declared to the client once and to the daemon once
// per stream: a report may be dropped, or be the first one of a new stream, so declarations are
// taken out of reports when they are pushed and put back where a stream first needs them.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::client_internal {

// Which ids a stream knows.
struct StreamIds {
  absl::flat_hash_set<uint32_t> scalars;
  absl::flat_hash_set<uint32_t> tensors;
};

class Names {
 public:
  // The id of this scalar; `declaration.id` is ignored.
  absl::StatusOr<uint32_t> DeclareScalar(v1::ScalarDeclaration declaration);

  // Moves the declarations out of `report` and checks that every id it uses is declared.
  absl::Status Absorb(v1::Report* report);

  // Adds to `report` the declarations of the ids it uses that are not in `known`; they are then.
  void DeclareFor(v1::Report* report, StreamIds* known) const;

 private:
  absl::Status Learn(const v1::ScalarDeclaration& declaration);
  absl::Status Learn(const v1::TensorDeclaration& declaration);

  absl::flat_hash_map<uint32_t, v1::ScalarDeclaration> scalars_;
  absl::flat_hash_map<std::pair<std::string, int>, uint32_t> scalar_ids_;  // by name and scope
  absl::flat_hash_map<uint32_t, v1::TensorDeclaration> tensors_;
  uint32_t next_id_ = 1;
};

}  // namespace foreshock::client_internal
