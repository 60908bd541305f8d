// Names interned by one recorded stream. A replay that goes on where an earlier one ended skips
// what is committed, but the ids of later reports must still be declared on the new gRPC stream.
//
//   names.Note(skipped_report);
//   names.MoveInto(&first_report_sent);   // declares there what only the skipped ones declared
#pragma once

#include <cstdint>
#include <map>

#include "foreshock/v1/ingest.pb.h"

namespace foreshock::cli {

class Declarations {
 public:
  // Keeps what `report` declares.
  void Note(const v1::Report& report);
  // Adds what is kept to `report`, except ids it declares itself, and forgets it.
  void MoveInto(v1::Report* report);

 private:
  std::map<uint32_t, v1::ScalarDeclaration> scalars_;
  std::map<uint32_t, v1::TensorDeclaration> tensors_;
};

}  // namespace foreshock::cli
