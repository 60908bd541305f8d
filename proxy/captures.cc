#include "proxy/captures.h"

#include <cmath>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/reader.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::proxy {
namespace {

template <typename T>
std::vector<double> ReadAs(const std::string& data) {
  std::vector<double> values(data.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof value, sizeof value);
    values[i] = static_cast<double>(value);
  }
  return values;
}

// One dimension of `size` numbers, none negative; whole ones where `whole`.
absl::StatusOr<std::vector<double>> ReadPushed(const v1::Tensor& tensor, const char* field,
                                               int64_t size, bool whole) {
  std::vector<double> values;
  const v1::DType dtype = tensor.dtype();
  if (dtype == v1::DTYPE_I64) values = ReadAs<int64_t>(tensor.data());
  if (dtype == v1::DTYPE_I32) values = ReadAs<int32_t>(tensor.data());
  if (dtype == v1::DTYPE_F64 && !whole) values = ReadAs<double>(tensor.data());
  if (dtype == v1::DTYPE_F32 && !whole) values = ReadAs<float>(tensor.data());
  if (static_cast<int64_t>(values.size()) != size) {
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", values.size(), " numbers of ",
                                                   v1::DType_Name(dtype), ", must have ", size));
  }
  for (const double value : values) {
    if (!std::isfinite(value) || value < 0) {
      return absl::InvalidArgumentError(absl::StrCat(field, " has ", value));
    }
  }
  return values;
}

// Sums of one kind over one layer.
struct Counted {
  double tokens = 0;
  Vector frequency;
  Matrix coactivation;
  Vector gates;
  bool all_have_gates = true;
};

class Gatherer {
 public:
  Gatherer(const Model& model, const GatherOptions& options) : model_(model), options_(options) {}

  absl::Status Read(const std::string& path) {
    FORESHOCK_ASSIGN_OR_RETURN(const auto reader, capture::CaptureReader::Open(path));
    std::map<uint32_t, v1::Hello> hellos;
    v1::CaptureRecord record;
    while (true) {
      FORESHOCK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
      if (!more) return absl::OkStatus();
      if (record.message().has_hello()) {
        hellos[record.stream()] = record.message().hello();
        FORESHOCK_RETURN_IF_ERROR(CheckModel(record.message().hello()));
      } else if (record.message().has_report()) {
        FORESHOCK_RETURN_IF_ERROR(Add(hellos[record.stream()], record.message().report()));
      }
    }
  }

  absl::StatusOr<Pushed> Finish() {
    Pushed pushed;
    for (const MoeLayer& moe : model_.moe) {
      const auto pairs = pairs_.find(moe.layer);
      const auto loads = loads_.find(moe.layer);
      if (pairs == pairs_.end() && loads == loads_.end()) {
        pushed.warnings.push_back(
            absl::StrCat("layer ", moe.layer, ": nothing was pushed of its router"));
        continue;
      }
      absl::StatusOr<LayerStats> stats =
          pairs != pairs_.end() ? FromPairs(pairs->second) : FromLoads(loads->second);
      if (!stats.ok()) return base::Annotate(stats.status(), absl::StrCat("layer ", moe.layer));
      pushed.layers[moe.layer] = *std::move(stats);
    }
    if (pushed.layers.empty()) {
      return absl::NotFoundError(
          "no RouterLoad and no RouterCoactivation of the model's layers is in these steps");
    }
    return pushed;
  }

 private:
  absl::Status CheckModel(const v1::Hello& hello) const {
    const v1::ModelShape& shape = hello.model();
    const auto differs = [&](const char* what, uint32_t said, int expected) {
      return absl::InvalidArgumentError(absl::StrCat("run '", hello.run(), "' says ", what, " ",
                                                     said, ", the checkpoint has ", expected));
    };
    if (shape.experts() != 0 && static_cast<int>(shape.experts()) != model_.experts) {
      return differs("experts", shape.experts(), model_.experts);
    }
    if (shape.top_k() != 0 && static_cast<int>(shape.top_k()) != model_.top_k) {
      return differs("top_k", shape.top_k(), model_.top_k);
    }
    return absl::OkStatus();
  }

  absl::Status Add(const v1::Hello& hello, const v1::Report& report) {
    if (report.recomputed() || report.phase() == v1::PHASE_EVAL ||
        report.step() < options_.first_step || report.step() > options_.last_step) {
      return absl::OkStatus();
    }
    const std::string derived = absl::StrCat("data ", hello.coordinates().data(), ", context ",
                                             hello.coordinates().context());
    for (const v1::Summary& summary : report.summaries()) {
      absl::Status status;
      int layer = -1;
      const auto is_new = [&](const auto& payload, const char* kind, uint32_t offset) {
        layer = static_cast<int>(payload.layer());
        const std::string shard =
            payload.has_token_shard() ? absl::StrCat(payload.token_shard()) : derived;
        return seen_.insert({hello.run(), report.step(), layer, kind, shard, offset}).second;
      };
      if (summary.has_router_coactivation() && !options_.loads_only && model_.top_k > 1) {
        const auto& pushed = summary.router_coactivation();
        if (is_new(pushed, "pairs", 0)) status = AddPairs(pushed, Layer(&pairs_, layer));
      } else if (summary.has_router_load()) {
        const auto& pushed = summary.router_load();
        if (is_new(pushed, "load", pushed.expert_offset())) {
          status = AddLoad(pushed, Layer(&loads_, layer));
        }
      }
      if (!status.ok()) {
        return base::Annotate(status, absl::StrCat("run '", hello.run(), "', rank ", hello.rank(),
                                                   ", step ", report.step(), ", layer ", layer));
      }
    }
    return absl::OkStatus();
  }

  Counted& Layer(std::map<int, Counted>* layers, int layer) const {
    Counted& counted = (*layers)[layer];
    if (counted.frequency.size() == 0) {
      counted.frequency = counted.gates = Vector::Zero(model_.experts);
      counted.coactivation = Matrix::Zero(model_.experts, model_.experts);
    }
    return counted;
  }

  absl::Status AddPairs(const v1::RouterCoactivation& pushed, Counted& counted) const {
    const int64_t experts = model_.experts;
    if (pushed.experts() != static_cast<uint64_t>(experts)) {
      return absl::InvalidArgumentError(absl::StrCat("RouterCoactivation is of ", pushed.experts(),
                                                     " experts, the checkpoint has ", experts));
    }
    FORESHOCK_ASSIGN_OR_RETURN(
        const std::vector<double> pairs,
        ReadPushed(pushed.pair_counts(), "pair_counts", experts * (experts - 1) / 2, true));
    FORESHOCK_RETURN_IF_ERROR(
        AddGates(pushed.has_gate_mass(), pushed.gate_mass(), 0, experts, counted));
    auto pair = pairs.begin();
    for (int i = 1; i < experts; ++i) {
      for (int j = 0; j < i; ++j, ++pair) {
        counted.coactivation(i, j) += *pair;
        counted.coactivation(j, i) += *pair;
      }
    }
    counted.tokens += static_cast<double>(pushed.tokens());
    return absl::OkStatus();
  }

  absl::Status AddLoad(const v1::RouterLoad& pushed, Counted& counted) const {
    const int64_t size = pushed.counts().shape_size() == 1 ? pushed.counts().shape(0) : 0;
    if (size == 0 || pushed.expert_offset() + size > model_.experts) {
      return absl::InvalidArgumentError(
          absl::StrCat("RouterLoad is of experts from ", pushed.expert_offset(), " to ",
                       pushed.expert_offset() + size, ", the checkpoint has ", model_.experts));
    }
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<double> counts,
                               ReadPushed(pushed.counts(), "counts", size, true));
    FORESHOCK_RETURN_IF_ERROR(AddGates(pushed.has_gate_mass(), pushed.gate_mass(),
                                       pushed.expert_offset(), size, counted));
    for (int64_t i = 0; i < size; ++i) {
      counted.frequency(pushed.expert_offset() + i) += counts[static_cast<size_t>(i)];
    }
    return absl::OkStatus();
  }

  absl::Status AddGates(bool has, const v1::Tensor& tensor, int64_t offset, int64_t size,
                        Counted& counted) const {
    counted.all_have_gates &= has;
    if (!has) return absl::OkStatus();
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<double> gates,
                               ReadPushed(tensor, "gate_mass", size, false));
    for (int64_t i = 0; i < size; ++i) counted.gates(offset + i) += gates[static_cast<size_t>(i)];
    return absl::OkStatus();
  }

  absl::StatusOr<LayerStats> FromPairs(const Counted& counted) const {
    std::optional<Vector> gates;
    if (counted.all_have_gates) gates = counted.gates;
    return StatsFromPairs(counted.coactivation, counted.tokens, std::move(gates), model_.top_k);
  }

  absl::StatusOr<LayerStats> FromLoads(const Counted& counted) const {
    LayerStats stats;
    stats.frequency = counted.frequency;
    stats.tokens = stats.frequency.sum() / model_.top_k;
    if (std::floor(stats.tokens) != stats.tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("the loads add to ", stats.frequency.sum(), ", no multiple of top-k, ",
                       model_.top_k, ": loads of some experts or ranks are missing"));
    }
    if (counted.all_have_gates) stats.gate_sum = counted.gates;
    return stats;
  }

  const Model& model_;
  const GatherOptions& options_;
  std::map<int, Counted> pairs_;
  std::map<int, Counted> loads_;
  // run, step, layer, kind, token shard, first expert
  std::set<std::tuple<std::string, int64_t, int, std::string, std::string, uint32_t>> seen_;
};

}  // namespace

absl::StatusOr<LayerStats> StatsFromPairs(const Matrix& coactivation, double tokens,
                                          std::optional<Vector> gates, int top_k) {
  LayerStats stats;
  stats.tokens = tokens;
  Matrix pairs = coactivation;
  pairs.diagonal().setZero();
  // Each of an expert's tokens has k - 1 other experts.
  stats.frequency = pairs.rowwise().sum() / (top_k - 1);
  if (stats.frequency.array().round().matrix() != stats.frequency ||
      stats.frequency.sum() != tokens * top_k) {
    return absl::InvalidArgumentError(absl::StrCat("the pair counts are not those of ", tokens,
                                                   " tokens with ", top_k, " experts each"));
  }
  pairs.diagonal() = stats.frequency;
  stats.coactivation = std::move(pairs);
  stats.gate_sum = std::move(gates);
  return stats;
}

absl::StatusOr<Pushed> GatherCaptures(const std::vector<std::string>& paths, const Model& model,
                                      const GatherOptions& options) {
  Gatherer gatherer(model, options);
  for (const std::string& path : paths) {
    FORESHOCK_RETURN_IF_ERROR(base::Annotate(gatherer.Read(path), path));
  }
  return gatherer.Finish();
}

}  // namespace foreshock::proxy
