// Any bytes as a rule file: either a set that can be evaluated, or errors that name the file.

#include <cstdint>

#include "absl/strings/string_view.h"
#include "daemon/base/check.h"
#include "daemon/rules/evaluator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto rules = rules::ParseRules("f", text);
  if (!rules.ok()) {
    FORESHOCK_CHECK(rules.status().code() == absl::StatusCode::kInvalidArgument);
    FORESHOCK_CHECK(rules.status().message().substr(0, 2) == "f:");
    return 0;
  }
  rules::Evaluator evaluator(*rules, "run", v1::ModelShape());
  evaluator.BeginAttempt({.number = 1, .resume_step = std::nullopt});
  for (int64_t step = 0; step < 4; ++step) {
    model::ClosedStep closed;
    closed.row.step = step;
    closed.row.attempt = 1;
    model::Sample sample;
    sample.series.indicator = "train.loss";
    sample.value = step % 2 == 0 ? 1 : 1e6;
    closed.samples.push_back(sample);
    evaluator.Evaluate(closed);
  }
  return 0;
}
