// What the simulated ranks say: a Hello, then one report a step, the same for the same rank and
// step, so that a report that must be sent again needs no memory.
#pragma once

#include <cstdint>
#include <string>

#include "foreshock/v1/ingest.pb.h"
#include "tests/load/load_options.h"

namespace foreshock::load {

// Immutable; thread-safe.
class ReportMaker {
 public:
  explicit ReportMaker(const LoadOptions& options);

  v1::Hello Hello(uint32_t rank) const;

  // Makes `request` the report of that step; seq is step + 1. `request` may hold an earlier report
  // of the same rank, whose parts are used again.
  void Make(uint32_t rank, int64_t step, v1::PushRequest* request) const;
  // Names must be declared again on every stream.
  void Declare(v1::PushRequest* request) const;
  // Gives back the memory of what only some reports have.
  void Shrink(v1::PushRequest* request) const;

 private:
  bool SendsGram(uint32_t rank, int64_t step) const;
  void AddGrams(uint32_t rank, int64_t step, v1::Report* report) const;

  const LoadOptions options_;
  std::string gram_;  // of gram_heads heads, packed F64
};

}  // namespace foreshock::load
