// Payload tensors as numbers: {dtype, shape, little-endian bytes} -> double or integer vectors.
//
//   const TensorDoubles w = DecodeDoubles(payload.weights());
//   if (w.nonfinite > 0) ReportNonFinite(...);
//
// The payload must have passed ingest's validation: bytes agree with shape. Every format is decoded
// exactly; F64 is the widest, so nothing is rounded (I64 beyond 2^53 is, to the nearest double).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/model/dtype.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::indicators {

struct TensorDoubles {
  std::vector<double> values;
  uint64_t nonfinite = 0;
};

// Elements of the shape; 0 for an absent tensor.
size_t ElementCount(const v1::Tensor& tensor);
// True when the element type is known and the bytes are as many as the shape says.
bool IsWellFormed(const v1::Tensor& tensor);
// True when the payload carries this tensor.
inline bool IsPresent(const v1::Tensor& tensor) { return tensor.dtype() != v1::DTYPE_UNSPECIFIED; }

// `count` elements of `dtype` at `bytes` into `out`.
void DecodeDoubles(v1::DType dtype, const char* bytes, size_t count, double* out);
TensorDoubles DecodeDoubles(const v1::Tensor& tensor);
// NaN and infinities among `count` values.
uint64_t CountNonFinite(const double* values, size_t count);

// I32 and I64 only; another dtype gives an empty vector.
std::vector<int64_t> DecodeInts(const v1::Tensor& tensor);

// Significand bits of a format, the hidden one included: 53, 24, 11, 8.
uint32_t SignificandBits(v1::DType dtype);

}  // namespace foreshock::indicators
