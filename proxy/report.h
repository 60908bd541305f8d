// How faithful a proxy is, as far as no forward pass is needed: its files against the source's
// bytes, sizes, the router's rows, and what a calibration says of the experts that stayed.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Report report,
//                              MakeReport(source, proxy, plan, calibration, on_bytes));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/assemble.h"
#include "proxy/calibration.h"
#include "proxy/cli.h"
#include "proxy/plan.h"

namespace foreshock::proxy {

// Of shares q that add to 1 over n experts; undefined without any token.
struct LoadShape {
  double entropy_ratio = 0;  // H(q) / ln n, in [0, 1]; n = 1: 1
  double variation = 0;      // standard deviation over mean
  // (n max q - 1) / (n / k - 1), in [0, 1]; none where k = n.
  std::optional<double> max_violation_ratio;
};
LoadShape ShapeOfLoad(const Vector& counts, int top_k);

// Of the router's rows.
struct RowShape {
  std::optional<double> weight_similarity;     // mean cosine of two rows; none with a row of zeros
  std::optional<double> centred_conditioning;  // largest distance from the mean row over its norm
};
RowShape ShapeOfRows(const Matrix& rows);

struct LayerReport {
  int layer = 0;
  RowShape rows_before;
  RowShape rows_after;
  // With a calibration that has the layer:
  std::optional<double> survival;  // share of the original choices whose expert is kept
  std::optional<LoadShape> load_before;
  std::optional<LoadShape> load_expected;     // clusters' sums: as if representatives took them all
  std::optional<double> kept_probability;     // mean probability of the kept experts
  std::optional<double> token_entropy_ratio;  // mean H(p) / ln E
  std::optional<double> mutual_information;   // (H(mean p) - mean H(p)) / ln E
  std::optional<double> margin_p10;           // lower end of the bin in which a tenth is reached
  std::optional<double> gate_sum;             // mean over tokens of the sum of the top-k gates
};

struct Report {
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
  uint64_t parameters_before = 0;  // elements of all tensors but those of integers
  uint64_t parameters_after = 0;
  int experts = 0;
  int keep = 0;
  uint64_t bytes_compared = 0;  // of the proxy's files, all equal to the source's
  std::vector<std::string> config_changes;
  std::vector<LayerReport> layers;
  std::optional<double> survival;  // over all layers
  std::vector<std::string> notes;
};

// DataLoss, with file, byte and tensor, where the proxy is not what `slice` makes of source and
// plan.
absl::StatusOr<Report> MakeReport(const Source& source, const Source& proxy, const Plan& plan,
                                  const Calibration& calibration, const OnBytes& on_bytes);

}  // namespace foreshock::proxy
