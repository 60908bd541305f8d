// What foreshock-load is asked to do; its --help says what each means.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace foreshock::load {

struct LoadOptions {
  std::string server = "127.0.0.1:7317";  // gRPC
  std::string http{};                     // of /metrics; empty: the daemon's memory is not shown
  std::string run{};
  uint32_t ranks = 2048;
  uint32_t connections = 0;  // 0: one a rank
  absl::Duration interval = absl::Seconds(1);
  absl::Duration spread{};  // over which the ranks' reports of one step are spread, < interval
  absl::Duration duration = absl::Seconds(60);
  absl::Duration greeting = absl::Seconds(60);  // to be let in
  absl::Duration drain = absl::Seconds(30);     // to be acknowledged, in the end

  uint32_t scalars = 10;
  uint32_t rank_scalars = 1;  // of them with a series for each rank
  uint32_t layers = 18;
  uint32_t experts = 64;
  uint32_t gram_ranks = 64;
  uint32_t gram_every_steps = 50;
  uint32_t gram_heads = 1;  // of a Gram rank, in each layer
  uint32_t head_dim = 64;

  double growth_max_percent = 0;  // of the daemon's memory in the second half; 0: not judged

  int64_t steps() const { return duration / interval; }
};

}  // namespace foreshock::load
