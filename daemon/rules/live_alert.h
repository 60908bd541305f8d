// The alert of a rule or signature while it fires.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/rules/alert_record.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::rules {

struct LiveAlert {
  bool active = false;
  bool reported = false;  // a row of it was returned, or restored
  std::string id;
  uint32_t attempt = 0;
  int64_t pending_step = 0;
  int64_t firing_step = 0;
  int64_t base_step = 0;  // last healthy step of the earliest mover
  std::vector<uint32_t> layers;
  bool all_layers = false;
  std::vector<uint32_t> ranks;
  AlertRecord record;  // of a rule

  // All but `reported`, which the stored rows say.
  template <typename A>
  void serialize(A& archive) {
    archive(active, id, attempt, pending_step, firing_step, base_step, layers, all_layers, ranks,
            record);
  }
};

// What the state in the row of an alert begins with: what the alert itself does not say.
struct AlertState {
  int64_t base_step = 0;
  std::vector<uint32_t> ranks;
  AlertRecord record{};

  template <typename A>
  void serialize(A& archive) {
    archive(base_step, ranks, record);
  }
};

// What a stored row says of an alert that fires.
LiveAlert LiveAlertOf(const v1::Alert& alert, const AlertState& state);

}  // namespace foreshock::rules
