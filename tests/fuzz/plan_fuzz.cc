// Any bytes as plan.json: an error that names the file, or a plan that survives being written
// again.
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "daemon/base/check.h"
#include "proxy/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock::proxy;  // NOLINT
  const auto plan = ParsePlan("p", {reinterpret_cast<const char*>(data), size});
  if (!plan.ok()) {
    FORESHOCK_CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
    FORESHOCK_CHECK(absl::StartsWith(plan.status().message(), "p: "));
    return 0;
  }
  for (const LayerPlan& layer : plan->layers) {
    FORESHOCK_CHECK(static_cast<int>(layer.kept.size()) == plan->keep);
    for (const int expert : layer.kept) FORESHOCK_CHECK(expert >= 0 && expert < plan->experts);
  }
  const std::string text = FormatPlan(*plan);
  const auto again = ParsePlan("p", text);
  FORESHOCK_CHECK(again.ok() && FormatPlan(*again) == text);
  return 0;
}
