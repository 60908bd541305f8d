// What people do about alerts, over gRPC and over HTTP alike: take one on, accept
// its level, silence some.
//
//   AlertActions actions({.answers = &answers, .pipeline = &pipeline, ...});
//   FORESHOCK_ASSIGN_OR_RETURN(const v1::Alert alert, actions.Acknowledge(request));
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/notify/outbox.h"
#include "daemon/notify/silences.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/query/answers.h"
#include "foreshock/v1/admin.pb.h"

namespace foreshock::app {

// Thread-safe; everything pointed to outlives it.
class AlertActions {
 public:
  struct Deps {
    const query::Answers* answers = nullptr;
    pipeline::Pipeline* pipeline = nullptr;
    notify::Silences* silences = nullptr;
    notify::Outbox* outbox = nullptr;
    const base::Clock* clock = nullptr;
  };

  explicit AlertActions(Deps deps) : deps_(std::move(deps)) {}

  // The alert may be named by the beginning of its id. Errors: InvalidArgument for a bad request,
  // NotFound when not exactly one alert is meant, FailedPrecondition when it is over.
  absl::StatusOr<v1::Alert> Acknowledge(const v1::AcknowledgeAlertRequest& request);

  // What it shows is the new normal, from its first step on. Errors: as Acknowledge.
  absl::StatusOr<v1::AcceptAlertResponse> Accept(const v1::AcceptAlertRequest& request);

  // Errors: as Silences.
  absl::StatusOr<v1::Silence> Silence(const v1::SilenceAlertsRequest& request);
  absl::StatusOr<v1::Silence> ExpireSilence(const std::string& id);

 private:
  absl::StatusOr<v1::Alert> FindFiring(const std::string& id_prefix) const;

  const Deps deps_;
};

}  // namespace foreshock::app
