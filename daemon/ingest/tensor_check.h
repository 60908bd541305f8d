// Checks of a Tensor: known element type, the expected extents, and as many bytes as they need.
// Nothing is allocated and no product can overflow, whatever the message says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "daemon/ingest/field.h"
#include "daemon/model/dtype.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::ingest {

// "F32"; "dtype 9" for an unknown type.
std::string DTypeName(v1::DType dtype);

// A set of element types.
using DTypes = uint32_t;
constexpr DTypes DTypeBit(v1::DType dtype) { return 1u << dtype; }
inline constexpr DTypes kFloats = DTypeBit(v1::DTYPE_F64) | DTypeBit(v1::DTYPE_F32) |
                                  DTypeBit(v1::DTYPE_F16) | DTypeBit(v1::DTYPE_BF16);
inline constexpr DTypes kWideFloats = DTypeBit(v1::DTYPE_F64) | DTypeBit(v1::DTYPE_F32);
inline constexpr DTypes kIntegers = DTypeBit(v1::DTYPE_I32) | DTypeBit(v1::DTYPE_I64);

// What one extent may be: low..high, both included; low = high asks for that very size.
struct Extent {
  const char* name;  // "tokens"
  uint64_t low;
  uint64_t high;

  static Extent Exactly(const char* name, uint64_t size) { return {name, size, size}; }
};

// Errors, InvalidArgument: dtype outside `allowed`; another number of extents; an extent outside
// its bounds (0 is always outside); data longer or shorter than shape times element size.
absl::Status CheckTensor(const Field& field, const v1::Tensor& tensor, DTypes allowed,
                         std::initializer_list<Extent> extents);

// Element i of a tensor that has passed CheckTensor with I32 or I64.
int64_t IntegerAt(const v1::Tensor& tensor, size_t i);

// Element i of a tensor that has passed CheckTensor with F64 or F32.
double FloatAt(const v1::Tensor& tensor, size_t i);

}  // namespace foreshock::ingest
