#include "proxy/report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "proxy/slice.h"

namespace foreshock::proxy {
namespace {

constexpr uint64_t kPieceBytes = 8u << 20;

double EntropyOf(const Vector& shares) {
  double sum = 0;
  for (const double share : shares) {
    if (share > 0) sum -= share * std::log(share);
  }
  return sum;
}

uint64_t ParametersOf(const Checkpoint& checkpoint) {
  uint64_t sum = 0;
  for (const Shard& shard : checkpoint.shards) {
    for (const Tensor& tensor : shard.header.tensors) {
      if (absl::StartsWith(tensor.dtype, "I") || tensor.dtype == "BOOL") continue;
      // Quantised blocks hold two numbers of 4 bits in a byte.
      const bool blocks = tensor.dtype == "U8" && absl::EndsWith(tensor.name, "_blocks");
      if (absl::StartsWith(tensor.dtype, "U") && !blocks) continue;
      uint64_t elements = blocks ? 2 : 1;
      for (const uint64_t dimension : tensor.shape) elements *= dimension;
      sum += elements;
    }
  }
  return sum;
}

// The options with which the proxy was cut, as its config shows them.
SliceOptions OptionsOf(const Source& proxy, const Source& source) {
  const auto& whole = proxy.checkpoint.config;
  const std::string& section = proxy.model.config_section;
  const auto& config = section.empty() ? whole : whole[section];
  SliceOptions options;
  options.gate_rescale = config.contains("foreshock_gate_scale");
  options.drop_prediction = source.model.moe.size() > proxy.model.moe.size();
  return options;
}

absl::Status Differs(const Shard& shard, uint64_t byte, absl::string_view what) {
  std::string tensor = "the header";
  for (const Tensor& candidate : shard.header.tensors) {
    if (byte >= candidate.begin && byte < candidate.end) {
      tensor = absl::StrCat("tensor '", candidate.name, "'");
    }
  }
  return absl::DataLossError(
      absl::StrCat(shard.file.path(), ": ", tensor, ": byte ", byte, ": ", what));
}

// `expected` against the proxy's bytes from `at` on.
absl::Status CompareBytes(const Shard& shard, uint64_t at, const std::string& expected) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::string found, shard.file.Read(at, expected.size()));
  if (found == expected) return absl::OkStatus();
  const auto place = std::mismatch(found.begin(), found.end(), expected.begin()).first;
  return Differs(shard, at + static_cast<uint64_t>(place - found.begin()),
                 "is not what the source and the plan give");
}

absl::Status CompareShard(const Shard& source, const CutShard& part, const Shard& proxy,
                          uint64_t done, const OnBytes& on_bytes) {
  if (proxy.file.bytes() != part.bytes) {
    return Differs(
        proxy, std::min(proxy.file.bytes(), part.bytes),
        absl::StrCat("the file has ", proxy.file.bytes(), " bytes, must have ", part.bytes));
  }
  FORESHOCK_RETURN_IF_ERROR(CompareBytes(proxy, 0, part.header));
  uint64_t at = part.header.size();
  for (const Range& range : part.ranges) {
    for (uint64_t begin = 0; begin < range.bytes; begin += kPieceBytes) {
      const uint64_t size = std::min(kPieceBytes, range.bytes - begin);
      FORESHOCK_ASSIGN_OR_RETURN(const std::string expected,
                                 source.file.Read(range.begin + begin, size));
      FORESHOCK_RETURN_IF_ERROR(CompareBytes(proxy, at, expected));
      at += size;
      on_bytes(done + at, proxy.name);
    }
  }
  return absl::OkStatus();
}

// Every file of the proxy against what `slice` would write now.
absl::Status CompareFiles(const Source& source, const Source& proxy, const Plan& plan,
                          const OnBytes& on_bytes, Report* report) {
  FORESHOCK_ASSIGN_OR_RETURN(
      const Cut cut, Slice(source.checkpoint, source.model, plan, OptionsOf(proxy, source)));
  if (cut.shards.size() != proxy.checkpoint.shards.size()) {
    return absl::DataLossError(absl::StrCat(proxy.checkpoint.directory, ": has ",
                                            proxy.checkpoint.shards.size(), " files, must have ",
                                            cut.shards.size()));
  }
  for (const auto& [name, text] : cut.texts) {
    const std::string path = absl::StrCat(proxy.checkpoint.directory, "/", name);
    FORESHOCK_ASSIGN_OR_RETURN(const std::string found, ReadWhole(path));
    if (found != text) {
      return absl::DataLossError(absl::StrCat(path, ": is not what the source and the plan give"));
    }
  }
  for (size_t s = 0; s < cut.shards.size(); ++s) {
    const CutShard& part = cut.shards[s];
    FORESHOCK_RETURN_IF_ERROR(CompareShard(source.checkpoint.shards[part.shard], part,
                                           proxy.checkpoint.shards[s], report->bytes_compared,
                                           on_bytes));
    report->bytes_compared += part.bytes;
  }
  return absl::OkStatus();
}

std::vector<std::string> ConfigChanges(const nlohmann::ordered_json& before,
                                       const nlohmann::ordered_json& after) {
  std::vector<std::string> changes;
  for (const auto& step : nlohmann::json::diff(nlohmann::json(before), nlohmann::json(after))) {
    changes.push_back(absl::StrCat(step["op"].get<std::string>(), " ",
                                   step["path"].get<std::string>(),
                                   step.contains("value") ? " " + step["value"].dump() : ""));
  }
  return changes;
}

void AddStats(const LayerStats& stats, const LayerPlan& plan, int top_k, LayerReport* report) {
  const double log_experts = std::log(static_cast<double>(stats.frequency.size()));
  double kept = 0;
  for (const int e : plan.kept) kept += stats.frequency(e);
  report->survival = kept / (stats.tokens * top_k);
  report->load_before = ShapeOfLoad(stats.frequency, top_k);
  if (!plan.cluster.empty()) {
    Vector clusters = Vector::Zero(static_cast<Eigen::Index>(plan.kept.size()));
    for (size_t e = 0; e < plan.cluster.size(); ++e) {
      clusters(plan.cluster[e]) += stats.frequency(static_cast<Eigen::Index>(e));
    }
    report->load_expected = ShapeOfLoad(clusters, top_k);
  }
  if (stats.gate_sum) report->gate_sum = stats.gate_sum->sum() / stats.tokens;
  if (stats.probability_sum) {
    const Vector mean = *stats.probability_sum / stats.tokens;
    double sum = 0;
    for (const int e : plan.kept) sum += mean(e);
    report->kept_probability = sum;
    if (stats.entropy_sum && log_experts > 0) {
      const double token_entropy = *stats.entropy_sum / stats.tokens;
      report->token_entropy_ratio = token_entropy / log_experts;
      report->mutual_information = (EntropyOf(mean) - token_entropy) / log_experts;
    }
  }
  if (stats.margin_histogram && stats.margin_histogram->sum() > 0) {
    double below = 0;
    for (int bin = 0; bin < kMarginBins; ++bin) {
      below += (*stats.margin_histogram)(bin);
      if (below * 10 < stats.margin_histogram->sum()) continue;
      report->margin_p10 = bin == 0 ? 0 : std::exp2((bin - 62) / 2.0);
      break;
    }
  }
}

void AddNotes(const Model& model, const Plan& plan, const Calibration& calibration,
              Report* report) {
  auto& notes = report->notes;
  if (calibration.sha256().empty()) {
    notes.push_back("no calibration was given: nothing is said of choices, load and gates");
  }
  for (const std::string& hash : calibration.sha256()) {
    if (std::find(plan.calibration_sha256.begin(), plan.calibration_sha256.end(), hash) ==
        plan.calibration_sha256.end()) {
      continue;
    }
    notes.push_back("the experts were selected with this calibration; take text held out from it");
    break;
  }
  for (const std::string& warning : CheckKeep(model, plan.keep, 1).warnings) {
    notes.push_back(warning);
  }
  notes.push_back(
      "a balance loss whose form is scaled by the number of experts is unaffected; other forms "
      "change strength");
}

}  // namespace

LoadShape ShapeOfLoad(const Vector& counts, int top_k) {
  const auto n = static_cast<double>(counts.size());
  LoadShape shape;
  if (!(counts.sum() > 0)) return shape;
  const Vector shares = counts / counts.sum();
  shape.entropy_ratio = n > 1 ? EntropyOf(shares) / std::log(n) : 1;
  shape.variation = std::sqrt((shares.array() - 1 / n).square().mean()) * n;
  if (n > top_k) shape.max_violation_ratio = (n * shares.maxCoeff() - 1) / (n / top_k - 1);
  return shape;
}

RowShape ShapeOfRows(const Matrix& rows) {
  const auto n = static_cast<double>(rows.rows());
  RowShape shape;
  const Vector norms = rows.rowwise().norm();
  if (rows.rows() < 2 || !(norms.minCoeff() > 0)) return shape;
  const Eigen::RowVectorXd direction =
      (rows.array().colwise() / norms.array()).matrix().colwise().mean();
  shape.weight_similarity = (n * direction.squaredNorm() - 1) / (n - 1);
  const Eigen::RowVectorXd mean = rows.colwise().mean();
  if (mean.norm() > 0) {
    shape.centred_conditioning = (rows.rowwise() - mean).rowwise().norm().maxCoeff() / mean.norm();
  }
  return shape;
}

absl::StatusOr<Report> MakeReport(const Source& source, const Source& proxy, const Plan& plan,
                                  const Calibration& calibration, const OnBytes& on_bytes) {
  Report report;
  FORESHOCK_RETURN_IF_ERROR(CompareFiles(source, proxy, plan, on_bytes, &report));
  report.bytes_before = source.checkpoint.bytes();
  report.bytes_after = proxy.checkpoint.bytes();
  report.parameters_before = ParametersOf(source.checkpoint);
  report.parameters_after = ParametersOf(proxy.checkpoint);
  report.experts = plan.experts;
  report.keep = plan.keep;
  report.config_changes = ConfigChanges(source.checkpoint.config, proxy.checkpoint.config);
  double kept = 0;
  double chosen = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    const MoeLayer& moe = source.model.moe[i];
    const Shard& shard = source.checkpoint.shards[moe.router_shard];
    FORESHOCK_ASSIGN_OR_RETURN(const Matrix rows,
                               ReadMatrix(shard.file, shard.header.tensors[moe.router_tensor]));
    Matrix left(static_cast<Eigen::Index>(layer.kept.size()), rows.cols());
    for (size_t e = 0; e < layer.kept.size(); ++e) {
      left.row(static_cast<Eigen::Index>(e)) = rows.row(layer.kept[e]);
    }
    LayerReport part;
    part.layer = layer.layer;
    part.rows_before = ShapeOfRows(rows);
    part.rows_after = ShapeOfRows(left);
    if (calibration.Has(layer.layer)) {
      FORESHOCK_ASSIGN_OR_RETURN(const LayerStats stats, calibration.Load(layer.layer));
      if (stats.tokens > 0) {
        AddStats(stats, layer, plan.top_k, &part);
        kept += *part.survival * stats.tokens;
        chosen += stats.tokens;
      }
    }
    report.layers.push_back(part);
  }
  if (chosen > 0) report.survival = kept / chosen;
  AddNotes(source.model, plan, calibration, &report);
  return report;
}

}  // namespace foreshock::proxy
