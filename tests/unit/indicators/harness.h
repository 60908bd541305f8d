// Payloads from plain numbers, and one rank's way from a payload to the samples of a closed step.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/indicators/finish.h"
#include "daemon/indicators/history.h"
#include "daemon/indicators/snapshots.h"
#include "daemon/indicators/summarise.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::indicators {

inline v1::Tensor F64Tensor(std::vector<uint32_t> shape, const std::vector<double>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_F64);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()), 8 * values.size());
  return tensor;
}

inline v1::Tensor F32Tensor(std::vector<uint32_t> shape, const std::vector<double>& values) {
  const std::vector<float> narrow(values.begin(), values.end());
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(narrow.data()), 4 * narrow.size());
  return tensor;
}

// Rounds to nearest even, as trainers do.
inline float ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits += 0x7fff + (bits >> 16 & 1);
  bits &= 0xffff0000;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline v1::Tensor Bf16Tensor(std::vector<uint32_t> shape, const std::vector<double>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_BF16);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  for (double value : values) {
    const float rounded = ToBf16(static_cast<float>(value));
    uint32_t bits;
    std::memcpy(&bits, &rounded, 4);
    tensor.mutable_data()->push_back(static_cast<char>(bits >> 16));
    tensor.mutable_data()->push_back(static_cast<char>(bits >> 24));
  }
  return tensor;
}

inline v1::Tensor I64Tensor(std::vector<uint32_t> shape, const std::vector<int64_t>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_I64);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()), 8 * values.size());
  return tensor;
}

inline std::vector<double> Gaussian(std::mt19937_64* random, size_t n, double scale = 1) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values(n);
  for (double& value : values) value = normal(*random);
  return values;
}

// The samples of a closed step by id, layer and unit.
class Samples {
 public:
  explicit Samples(model::ClosedStep closed) : closed_(std::move(closed)) {}

  const model::Sample* Find(const std::string& id, int64_t unit_id = 0,
                            const std::string& name = "") const {
    for (const model::Sample& sample : closed_.samples) {
      if (sample.series.indicator == id && sample.series.unit_id == unit_id &&
          (name.empty() || sample.series.unit_name == name)) {
        return &sample;
      }
    }
    return nullptr;
  }
  // NaN when there is no such sample: compares unequal to everything.
  double operator()(const std::string& id, int64_t unit_id = 0,
                    const std::string& name = "") const {
    const model::Sample* sample = Find(id, unit_id, name);
    return sample == nullptr ? std::nan("") : sample->value;
  }
  bool Has(const std::string& id, int64_t unit_id = 0) const {
    return Find(id, unit_id) != nullptr;
  }
  uint32_t Flags(const std::string& id, int64_t unit_id = 0) const {
    const model::Sample* sample = Find(id, unit_id);
    return sample == nullptr ? ~0u : sample->flags;
  }
  // Empty when `id` is not undefined in this step.
  std::string Reason(const std::string& id) const {
    for (const model::Undefined& undefined : closed_.undefined) {
      if (undefined.indicator == id) return undefined.reason;
    }
    return "";
  }
  const model::ClosedStep& step() const { return closed_; }

 private:
  model::ClosedStep closed_;
};

// One rank.
class Rank {
 public:
  Rank() { sender_.rank = 3; }

  v1::ModelShape& model() { return sender_.model; }
  v1::Coordinates& coordinates() { return sender_.coordinates; }
  model::StreamNames& names() { return names_; }
  Snapshots& snapshots() { return snapshots_; }

  absl::Status Send(const v1::Summary& summary, int64_t step) {
    return Summarise(summary, {.sender = sender_, .names = names_, .step = step}, &snapshots_,
                     &shards_);
  }
  // Finishes what was sent since the last Close. Shards of one rank need no merge.
  Samples Close(int64_t step, bool eval = false, model::StepRow row = {}) {
    model::ClosedStep closed;
    closed.run = "run";
    closed.row = row;
    closed.row.step = step;
    Finish(shards_, sender_.model, eval, &history_, &closed);
    shards_.Clear();
    return Samples(std::move(closed));
  }
  Samples SendAndClose(const v1::Summary& summary, int64_t step) {
    EXPECT_OK(Send(summary, step));
    return Close(step);
  }
  model::StepShards& shards() { return shards_; }
  History& history() { return history_; }

 private:
  Sender sender_;
  model::StreamNames names_;
  Snapshots snapshots_{Snapshots::Options{}};
  History history_;
  model::StepShards shards_;
};

// 1e-9 relative, and 1e-9 absolute against 0.
MATCHER_P2(Near9, expected, tolerance, absl::StrCat("is ", expected)) {
  const double want = static_cast<double>(expected);
  const double allowed = tolerance * (want == 0 ? 1.0 : std::abs(want));
  return std::abs(static_cast<double>(arg) - want) <= allowed;
}
inline auto Near(double expected) { return Near9(expected, 1e-9); }

}  // namespace foreshock::indicators
