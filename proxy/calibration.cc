#include "proxy/calibration.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"

namespace foreshock::proxy {
namespace {

constexpr char kFormat[] = "foreshock.calibration.v1";
constexpr size_t kReadAtOnce = 8192;  // numbers: as many as the heap gives out again and again
constexpr double kCountMax = 9007199254740992.0;  // 2^53: above it a double skips whole numbers

double DecodeHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F;
  const double fraction = bits & 0x3FF;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

template <typename T>
T LoadAs(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);  // little-endian, as the machines we build for
  return value;
}

double DecodeBrainFloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  return LoadAs<float>(reinterpret_cast<const char*>(&wide));
}

template <typename T>
double ToDouble(T value) {
  return static_cast<double>(value);
}

// How many numbers were decoded: `count`, or those before the first that is not finite.
using Decoder = size_t (*)(const char* from, size_t count, double* to);

template <typename T, double (*decode)(T)>
size_t DecodeAll(const char* from, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) {
    to[i] = decode(LoadAs<T>(from + i * sizeof(T)));
    if (!std::isfinite(to[i])) return i;
  }
  return count;
}

// How numbers of the dtype are read; null where they are not read as such.
Decoder DecoderOf(absl::string_view dtype) {
  if (dtype == "F64") return &DecodeAll<double, &ToDouble<double>>;
  if (dtype == "F32") return &DecodeAll<float, &ToDouble<float>>;
  if (dtype == "F16") return &DecodeAll<uint16_t, &DecodeHalf>;
  if (dtype == "BF16") return &DecodeAll<uint16_t, &DecodeBrainFloat>;
  if (dtype == "I64") return &DecodeAll<int64_t, &ToDouble<int64_t>>;
  return nullptr;
}

const Tensor* FindTensor(const Header& header, const std::string& name) {
  for (const Tensor& tensor : header.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

absl::Status CheckMetadata(const std::string& path, const Header& header, const Model& model) {
  const std::pair<std::string, std::string> expected[] = {{"format", kFormat},
                                                          {"model_type", model.model_type},
                                                          {"experts", absl::StrCat(model.experts)},
                                                          {"top_k", absl::StrCat(model.top_k)}};
  for (const auto& [name, value] : expected) {
    std::string found = "nothing";
    for (const auto& [key, text] : header.metadata) {
      if (key == name) found = absl::StrCat("'", text, "'");
    }
    if (found != absl::StrCat("'", value, "'")) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": the metadata's ", name, " is ", found,
                                                     ", the checkpoint needs '", value, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Matrix> ReadMatrix(const InputFile& file, const Tensor& tensor) {
  const Decoder decode = DecoderOf(tensor.dtype);
  if (decode == nullptr || tensor.shape.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": tensor '", tensor.name, "': byte ", tensor.begin, ": ", tensor.dtype,
        " of shape [", absl::StrJoin(tensor.shape, ", "),
        "]; read as numbers are F64, F32, F16, BF16 and I64 of at most two dimensions"));
  }
  const size_t width = static_cast<size_t>(DtypeBits(tensor.dtype)) / 8;
  const auto columns = static_cast<Eigen::Index>(tensor.shape.empty() ? 1 : tensor.shape.back());
  const auto rows = static_cast<Eigen::Index>(tensor.shape.size() == 2 ? tensor.shape[0] : 1);
  Matrix matrix(rows, columns);
  const auto size = static_cast<size_t>(matrix.size());
  for (size_t at = 0; at < size; at += kReadAtOnce) {
    const size_t count = std::min(kReadAtOnce, size - at);
    const uint64_t begin = tensor.begin + at * width;
    FORESHOCK_ASSIGN_OR_RETURN(const std::string data, file.Read(begin, count * width));
    const size_t decoded = decode(data.data(), count, matrix.data() + at);
    if (decoded < count) {
      return absl::InvalidArgumentError(absl::StrCat(file.path(), ": tensor '", tensor.name,
                                                     "': byte ", begin + decoded * width,
                                                     ": is not finite"));
    }
  }
  return matrix;
}

absl::StatusOr<Calibration> Calibration::Open(const std::vector<std::string>& paths,
                                              const Model& model) {
  Calibration calibration;
  calibration.experts_ = model.experts;
  calibration.top_k_ = model.top_k;
  calibration.hidden_ = model.hidden;
  for (const std::string& path : paths) {
    FORESHOCK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
    FORESHOCK_ASSIGN_OR_RETURN(Header header, ReadHeader(file));
    FORESHOCK_RETURN_IF_ERROR(CheckMetadata(path, header, model));
    FORESHOCK_ASSIGN_OR_RETURN(std::string sha256, Sha256OfFile(file));
    calibration.sha256_.push_back(std::move(sha256));
    calibration.parts_.push_back({std::move(file), std::move(header)});
  }
  return calibration;
}

bool Calibration::Has(int layer) const {
  for (const Part& part : parts_) {
    if (FindTensor(part.header, absl::StrCat("layers.", layer, ".tokens")) != nullptr) return true;
  }
  return false;
}

absl::StatusOr<LayerStats> Calibration::Load(int layer) const {
  const auto experts = static_cast<uint64_t>(experts_);
  const auto hidden = static_cast<uint64_t>(hidden_);
  // The sum over the files that have the layer; none unless all of them have the tensor.
  const auto sum =
      [&](const std::string& name, const std::string& dtype,
          const std::vector<uint64_t>& shape) -> absl::StatusOr<std::optional<Matrix>> {
    std::optional<Matrix> total;
    for (const Part& part : parts_) {
      const std::string prefix = absl::StrCat("layers.", layer, ".");
      if (FindTensor(part.header, prefix + "tokens") == nullptr) continue;
      const Tensor* tensor = FindTensor(part.header, prefix + name);
      if (tensor == nullptr) return std::optional<Matrix>();
      const auto wrong = [&](absl::string_view what) {
        return absl::InvalidArgumentError(absl::StrCat(part.file.path(), ": tensor '", tensor->name,
                                                       "': byte ", tensor->begin, ": ", what));
      };
      if (tensor->dtype != dtype || tensor->shape != shape) {
        return wrong(absl::StrCat("is ", tensor->dtype, " [", absl::StrJoin(tensor->shape, ", "),
                                  "], must be ", dtype, " [", absl::StrJoin(shape, ", "), "]"));
      }
      FORESHOCK_ASSIGN_OR_RETURN(Matrix values, ReadMatrix(part.file, *tensor));
      const bool is_input = name == "input_sum" || name == "expert_input_sum";
      if (!is_input && values.size() > 0 && values.minCoeff() < 0) {
        return wrong("has a negative value");
      }
      if (dtype == "I64" && values.size() > 0 && values.maxCoeff() >= kCountMax) {
        return wrong("has a count of 2^53 or more");
      }
      if (total) {
        *total += values;
      } else {
        total = std::move(values);
      }
    }
    return total;
  };
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("calibration: layer ", layer, ": ", what));
  };
  LayerStats stats;
  FORESHOCK_ASSIGN_OR_RETURN(const auto tokens, sum("tokens", "I64", {}));
  if (!tokens) return absl::NotFoundError(absl::StrCat("calibration: has no layer ", layer));
  stats.tokens = (*tokens)(0, 0);
  FORESHOCK_ASSIGN_OR_RETURN(const auto frequency, sum("frequency", "I64", {experts}));
  if (!frequency) return wrong("has no frequency");
  stats.frequency = frequency->row(0).transpose();
  if (stats.frequency.sum() != stats.tokens * top_k_) {
    return wrong(absl::StrCat("frequencies add to ", stats.frequency.sum(), ", not to top-k x ",
                              stats.tokens, " tokens"));
  }
  FORESHOCK_ASSIGN_OR_RETURN(stats.coactivation, sum("coactivation", "I64", {experts, experts}));
  if (stats.coactivation) {
    const Matrix& n = *stats.coactivation;
    if (n != n.transpose()) return wrong("coactivation is not symmetric");
    if (n.diagonal() != stats.frequency) return wrong("coactivation's diagonal is not frequency");
    if (n.rowwise().sum() != stats.frequency * top_k_) {
      return wrong("a row of coactivation does not add to top-k x frequency");
    }
  }
  FORESHOCK_ASSIGN_OR_RETURN(const auto input, sum("input_sum", "F64", {hidden}));
  if (input) stats.input_sum = input->row(0).transpose();
  FORESHOCK_ASSIGN_OR_RETURN(stats.expert_input_sum,
                             sum("expert_input_sum", "F64", {experts, hidden}));
  FORESHOCK_ASSIGN_OR_RETURN(const auto gates, sum("gate_sum", "F64", {experts}));
  if (gates) stats.gate_sum = gates->row(0).transpose();
  FORESHOCK_ASSIGN_OR_RETURN(const auto norms, sum("expert_norm_sum", "F64", {experts}));
  if (norms) stats.expert_norm_sum = norms->row(0).transpose();
  FORESHOCK_ASSIGN_OR_RETURN(const auto gated, sum("gated_norm_sum", "F64", {experts}));
  if (gated) stats.gated_norm_sum = gated->row(0).transpose();
  FORESHOCK_ASSIGN_OR_RETURN(const auto probabilities, sum("probability_sum", "F64", {experts}));
  if (probabilities) {
    stats.probability_sum = probabilities->row(0).transpose();
    // Each token's probabilities add to 1, but for the rounding of what computed them in 32 bits.
    if (std::abs(stats.probability_sum->sum() - stats.tokens) > 1e-3 * stats.tokens) {
      return wrong(absl::StrCat("probability_sum adds to ", stats.probability_sum->sum(),
                                ", not to ", stats.tokens, " tokens"));
    }
  }
  FORESHOCK_ASSIGN_OR_RETURN(const auto entropy, sum("entropy_sum", "F64", {}));
  if (entropy) stats.entropy_sum = (*entropy)(0, 0);
  FORESHOCK_ASSIGN_OR_RETURN(const auto margins,
                             sum("margin_histogram", "I64", {static_cast<uint64_t>(kMarginBins)}));
  if (margins) stats.margin_histogram = margins->row(0).transpose();
  return stats;
}

absl::Status WriteCalibration(const std::string& path, const Model& model,
                              const std::map<int, LayerStats>& layers) {
  Header header;
  header.metadata = {{"format", kFormat},
                     {"model_type", model.model_type},
                     {"experts", absl::StrCat(model.experts)},
                     {"top_k", absl::StrCat(model.top_k)}};
  std::string data;
  for (const auto& [number, stats] : layers) {
    const auto add = [&, layer = number](const char* name, const std::string& dtype,
                                         const std::vector<uint64_t>& shape, const Matrix& values) {
      const uint64_t begin = data.size();
      for (Eigen::Index i = 0; i < values.size(); ++i) {
        const double value = values.data()[i];
        const auto count = static_cast<int64_t>(value);
        data.append(dtype == "I64" ? reinterpret_cast<const char*>(&count)
                                   : reinterpret_cast<const char*>(&value),
                    sizeof value);
      }
      header.tensors.push_back(
          {absl::StrCat("layers.", layer, ".", name), dtype, shape, begin, data.size()});
    };
    const auto e = static_cast<uint64_t>(model.experts);
    const auto d = static_cast<uint64_t>(model.hidden);
    add("tokens", "I64", {}, Matrix::Constant(1, 1, stats.tokens));
    add("frequency", "I64", {e}, stats.frequency);
    if (stats.coactivation) add("coactivation", "I64", {e, e}, *stats.coactivation);
    if (stats.input_sum) add("input_sum", "F64", {d}, *stats.input_sum);
    if (stats.expert_input_sum) add("expert_input_sum", "F64", {e, d}, *stats.expert_input_sum);
    if (stats.gate_sum) add("gate_sum", "F64", {e}, *stats.gate_sum);
    if (stats.expert_norm_sum) add("expert_norm_sum", "F64", {e}, *stats.expert_norm_sum);
    if (stats.gated_norm_sum) add("gated_norm_sum", "F64", {e}, *stats.gated_norm_sum);
    if (stats.probability_sum) add("probability_sum", "F64", {e}, *stats.probability_sum);
    if (stats.entropy_sum)
      add("entropy_sum", "F64", {}, Matrix::Constant(1, 1, *stats.entropy_sum));
    if (stats.margin_histogram) {
      add("margin_histogram", "I64", {kMarginBins}, *stats.margin_histogram);
    }
  }
  return WriteWhole(path, FormatHeader(header) + data);
}

}  // namespace foreshock::proxy
