// Element types of tensors on the wire.
#pragma once

#include <cstdint>

#include "foreshock/v1/types.pb.h"

namespace foreshock::model {

// Bytes of one element; 0 for an unknown type.
constexpr uint32_t ElementBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F64:
    case v1::DTYPE_I64:
      return 8;
    case v1::DTYPE_F32:
    case v1::DTYPE_I32:
      return 4;
    case v1::DTYPE_F16:
    case v1::DTYPE_BF16:
      return 2;
    default:
      return 0;
  }
}

}  // namespace foreshock::model
