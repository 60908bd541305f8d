// The names one stream has declared: checks each declaration once, so that a value needs only its
// id. Thread-compatible.
//
//   NameTable table(limits);
//   FORESHOCK_RETURN_IF_ERROR(table.Declare(field, declaration));  // {7, "loss", MEAN, GLOBAL}
//   table.names().scalars.contains(7);
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/ingest/field.h"
#include "daemon/ingest/limits.h"
#include "daemon/model/stream_names.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::ingest {

class NameTable {
 public:
  explicit NameTable(const IngestLimits& limits)
      : scalars_max_(limits.scalars_per_stream_max), tensors_max_(limits.tensors_per_stream_max) {}

  // Repeating a declaration word for word is fine. Errors, InvalidArgument: a bad name or enum, an
  // id that stands for something else, a name that has another id in its scope, more names than the
  // limit.
  absl::Status Declare(const Field& field, const v1::ScalarDeclaration& declaration);
  absl::Status Declare(const Field& field, const v1::TensorDeclaration& declaration);

  const model::StreamNames& names() const { return names_; }

 private:
  const uint32_t scalars_max_;
  const uint32_t tensors_max_;
  model::StreamNames names_;
  absl::flat_hash_map<std::pair<std::string, int>, uint32_t> scalar_ids_;  // (name, scope)
  absl::flat_hash_map<std::pair<std::string, int64_t>, uint32_t>
      tensor_ids_;  // (name, layer or -1)
};

}  // namespace foreshock::ingest
