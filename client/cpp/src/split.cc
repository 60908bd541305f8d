#include "client/cpp/src/split.h"

#include <utility>

namespace foreshock::client_internal {

std::vector<v1::Report> Split(v1::Report report, size_t bytes_max) {
  std::vector<v1::Report> parts;
  if (report.ByteSizeLong() <= bytes_max) {
    parts.push_back(std::move(report));
    return parts;
  }
  google::protobuf::RepeatedPtrField<v1::Summary> summaries;
  summaries.Swap(report.mutable_summaries());
  const bool last_of_step = report.last_of_step();
  report.set_last_of_step(false);
  parts.push_back(report);
  report.set_tokens(0);

  constexpr size_t kSummaryOverheadBytes = 12;  // tag, length and what last_of_step adds
  const size_t header_bytes = parts.back().ByteSizeLong();
  size_t bytes = header_bytes;
  for (v1::Summary& summary : summaries) {
    const size_t more = summary.ByteSizeLong() + kSummaryOverheadBytes;
    if (parts.back().summaries_size() > 0 && bytes + more > bytes_max) {
      parts.push_back(report);
      bytes = header_bytes;
    }
    *parts.back().add_summaries() = std::move(summary);
    bytes += more;
  }
  parts.back().set_last_of_step(last_of_step);
  return parts;
}

}  // namespace foreshock::client_internal
