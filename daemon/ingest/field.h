// Where in a message a check is, for its error; costs nothing while everything is right.
//
//   const Field summary("summaries", 3);
//   const Field gates(summary, "router_gates", Layer{7});
//   return Field(gates, "top_k").Refuse("9", "1..8 (experts)");
//   // INVALID_ARGUMENT: summaries[3].router_gates.top_k (layer 7): found 9; allowed 1..8 (experts)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace foreshock::ingest {

struct Layer {
  uint32_t value;
};

// Lives on the stack, as its parents do; `name` must outlive it. Immutable.
class Field {
 public:
  explicit Field(absl::string_view name) : name_(name) {}
  Field(absl::string_view name, size_t index) : name_(name), index_(static_cast<int64_t>(index)) {}
  Field(const Field& parent, absl::string_view name) : parent_(&parent), name_(name) {}
  Field(const Field& parent, absl::string_view name, size_t index)
      : parent_(&parent), name_(name), index_(static_cast<int64_t>(index)) {}
  Field(const Field& parent, absl::string_view name, Layer layer)
      : parent_(&parent), name_(name), layer_(layer.value) {}
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  // "summaries[3].router_gates.top_k (layer 7)"
  std::string Path() const;

  // InvalidArgument "<path>: found <found>; allowed <allowed>".
  absl::Status Refuse(absl::string_view found, absl::string_view allowed) const;
  absl::Status Refuse(uint64_t found, absl::string_view allowed) const;

  // OK if low <= found <= high.
  absl::Status CheckRange(uint64_t found, uint64_t low, uint64_t high) const;

 private:
  void AppendTo(std::string* path) const;

  const Field* parent_ = nullptr;
  absl::string_view name_;
  int64_t index_ = -1;  // -1: not an element
  int64_t layer_ = -1;  // -1: not tied to a layer
};

}  // namespace foreshock::ingest
