// Names interned by one rank's stream: declared once, then sent as ids. Filled by ingest while it
// validates, read by summarise.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::model {

struct StreamNames {
  absl::flat_hash_map<uint32_t, v1::ScalarDeclaration> scalars;
  absl::flat_hash_map<uint32_t, v1::TensorDeclaration> tensors;
};

}  // namespace foreshock::model
