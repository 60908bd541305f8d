#include "daemon/indicators/tensor.h"

#include <bit>
#include <cstring>

#include "daemon/indicators/kernels.h"

namespace foreshock::indicators {

static_assert(std::endian::native == std::endian::little,
              "payload bytes are little-endian and read in place");

size_t ElementCount(const v1::Tensor& tensor) {
  const size_t element = model::ElementBytes(tensor.dtype());
  return element == 0 ? 0 : tensor.data().size() / element;
}

bool IsWellFormed(const v1::Tensor& tensor) {
  const size_t element = model::ElementBytes(tensor.dtype());
  size_t bytes = element;
  for (uint32_t extent : tensor.shape()) {
    if (extent == 0 || bytes > tensor.data().size() / extent) return false;
    bytes *= extent;
  }
  return element > 0 && bytes == tensor.data().size();
}

void DecodeDoubles(v1::DType dtype, const char* bytes, size_t count, double* out) {
  const Kernels& kernels = GetKernels();
  switch (dtype) {
    case v1::DTYPE_F64:
      std::memcpy(out, bytes, 8 * count);
      return;
    case v1::DTYPE_F32:
      kernels.decode_f32(bytes, count, out);
      return;
    case v1::DTYPE_F16:
      kernels.decode_f16(bytes, count, out);
      return;
    case v1::DTYPE_BF16:
      kernels.decode_bf16(bytes, count, out);
      return;
    case v1::DTYPE_I32:
      for (size_t i = 0; i < count; ++i) {
        int32_t value;
        std::memcpy(&value, bytes + 4 * i, 4);
        out[i] = value;
      }
      return;
    case v1::DTYPE_I64:
      for (size_t i = 0; i < count; ++i) {
        int64_t value;
        std::memcpy(&value, bytes + 8 * i, 8);
        out[i] = static_cast<double>(value);
      }
      return;
    default:
      return;
  }
}

TensorDoubles DecodeDoubles(const v1::Tensor& tensor) {
  TensorDoubles decoded;
  decoded.values.resize(ElementCount(tensor));
  DecodeDoubles(tensor.dtype(), tensor.data().data(), decoded.values.size(), decoded.values.data());
  decoded.nonfinite = CountNonFinite(decoded.values.data(), decoded.values.size());
  return decoded;
}

uint64_t CountNonFinite(const double* values, size_t count) {
  return GetKernels().count_nonfinite(values, count);
}

std::vector<int64_t> DecodeInts(const v1::Tensor& tensor) {
  std::vector<int64_t> values;
  const char* bytes = tensor.data().data();
  if (tensor.dtype() == v1::DTYPE_I64) {
    values.resize(ElementCount(tensor));
    std::memcpy(values.data(), bytes, 8 * values.size());
  } else if (tensor.dtype() == v1::DTYPE_I32) {
    values.resize(ElementCount(tensor));
    for (size_t i = 0; i < values.size(); ++i) {
      int32_t value;
      std::memcpy(&value, bytes + 4 * i, 4);
      values[i] = value;
    }
  }
  return values;
}

uint32_t SignificandBits(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return 24;
    case v1::DTYPE_F16:
      return 11;
    case v1::DTYPE_BF16:
      return 8;
    default:
      return 53;
  }
}

}  // namespace foreshock::indicators
