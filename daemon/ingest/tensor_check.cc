#include "daemon/ingest/tensor_check.h"

#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace foreshock::ingest {
namespace {

template <typename T>
T Load(const v1::Tensor& tensor, size_t i) {
  T value;
  std::memcpy(&value, tensor.data().data() + i * sizeof(T), sizeof(T));
  return value;
}

std::string ShapeText(const v1::Tensor& tensor) {
  if (tensor.shape_size() <= 4) return absl::StrCat("[", absl::StrJoin(tensor.shape(), ", "), "]");
  return absl::StrCat(tensor.shape_size(), " extents");
}

std::string ExtentsText(std::initializer_list<Extent> extents) {
  return absl::StrCat("[",
                      absl::StrJoin(extents, ", ",
                                    [](std::string* out, const Extent& extent) {
                                      absl::StrAppend(out, extent.name, " = ", extent.low);
                                      if (extent.low != extent.high)
                                        absl::StrAppend(out, "..", extent.high);
                                    }),
                      "]");
}

std::string DTypesText(DTypes allowed) {
  std::string out;
  for (int dtype = v1::DTYPE_F64; dtype <= v1::DTYPE_I64; ++dtype) {
    if ((allowed >> dtype & 1u) == 0) continue;
    absl::StrAppend(&out, out.empty() ? "" : ", ", DTypeName(static_cast<v1::DType>(dtype)));
  }
  return out;
}

}  // namespace

std::string DTypeName(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F64:
      return "F64";
    case v1::DTYPE_F32:
      return "F32";
    case v1::DTYPE_F16:
      return "F16";
    case v1::DTYPE_BF16:
      return "BF16";
    case v1::DTYPE_I32:
      return "I32";
    case v1::DTYPE_I64:
      return "I64";
    default:
      return absl::StrCat("dtype ", static_cast<int>(dtype));
  }
}

absl::Status CheckTensor(const Field& field, const v1::Tensor& tensor, DTypes allowed,
                         std::initializer_list<Extent> extents) {
  const uint32_t element_bytes = model::ElementBytes(tensor.dtype());
  if (element_bytes == 0 || (allowed & DTypeBit(tensor.dtype())) == 0) {
    return Field(field, "dtype").Refuse(DTypeName(tensor.dtype()), DTypesText(allowed));
  }
  bool fits = tensor.shape_size() == static_cast<int>(extents.size());
  uint64_t elements = 1;
  int axis = 0;
  for (const Extent& extent : extents) {
    if (!fits) break;
    const uint64_t size = tensor.shape(axis++);
    fits = size >= 1 && size >= extent.low && size <= extent.high;
    // Saturates: a product beyond 2^63 can equal no length.
    if (__builtin_mul_overflow(elements, size, &elements)) {
      elements = std::numeric_limits<uint64_t>::max();
    }
  }
  if (!fits) return Field(field, "shape").Refuse(ShapeText(tensor), ExtentsText(extents));
  uint64_t bytes = 0;
  const bool countable = !__builtin_mul_overflow(elements, uint64_t{element_bytes}, &bytes);
  if (!countable || bytes != tensor.data().size()) {
    return Field(field, "data")
        .Refuse(absl::StrCat(tensor.data().size(), " bytes"),
                absl::StrCat(countable ? absl::StrCat(bytes) : "over 2^64", " bytes (shape ",
                             ShapeText(tensor), " of ", DTypeName(tensor.dtype()), ")"));
  }
  return absl::OkStatus();
}

int64_t IntegerAt(const v1::Tensor& tensor, size_t i) {
  return tensor.dtype() == v1::DTYPE_I32 ? Load<int32_t>(tensor, i) : Load<int64_t>(tensor, i);
}

double FloatAt(const v1::Tensor& tensor, size_t i) {
  return tensor.dtype() == v1::DTYPE_F32 ? Load<float>(tensor, i) : Load<double>(tensor, i);
}

}  // namespace foreshock::ingest
