#include <cstddef>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/text.h"
#include "daemon/ingest/validate.h"

namespace foreshock::ingest {
namespace {

absl::Status CheckModel(const v1::ModelShape& model) {
  const Field field("model");
  const auto at_most = [&](const char* name, uint32_t found, uint32_t high) {
    return Field(field, name).CheckRange(found, 0, high);
  };
  FORESHOCK_RETURN_IF_ERROR(at_most("layers", model.layers(), kLayersMax));
  FORESHOCK_RETURN_IF_ERROR(at_most("heads", model.heads(), kHeadsMax));
  FORESHOCK_RETURN_IF_ERROR(at_most("kv_heads", model.kv_heads(), kHeadsMax));
  FORESHOCK_RETURN_IF_ERROR(at_most("head_dim", model.head_dim(), kHeadDimMax));
  FORESHOCK_RETURN_IF_ERROR(at_most("hidden_size", model.hidden_size(), kHiddenSizeMax));
  FORESHOCK_RETURN_IF_ERROR(at_most("experts", model.experts(), kExpertsMax));
  FORESHOCK_RETURN_IF_ERROR(at_most("shared_experts", model.shared_experts(), kExpertsMax));
  FORESHOCK_RETURN_IF_ERROR(at_most("router_groups", model.router_groups(), kExpertsMax));
  if (model.heads() != 0 && model.kv_heads() > model.heads()) {
    return Field(field, "kv_heads")
        .Refuse(model.kv_heads(), absl::StrCat("0..", model.heads(), " (heads)"));
  }
  const uint32_t top_k_max = model.experts() != 0 ? model.experts() : kExpertsMax;
  if (model.top_k() > top_k_max) {
    return Field(field, "top_k")
        .Refuse(model.top_k(), absl::StrCat("0..", top_k_max, " (experts)"));
  }
  return absl::OkStatus();
}

absl::Status CheckCoordinates(const v1::Coordinates& at, uint32_t world_size) {
  const Field field("coordinates");
  const uint32_t high = world_size - 1;
  FORESHOCK_RETURN_IF_ERROR(Field(field, "data").CheckRange(at.data(), 0, high));
  FORESHOCK_RETURN_IF_ERROR(Field(field, "tensor").CheckRange(at.tensor(), 0, high));
  FORESHOCK_RETURN_IF_ERROR(Field(field, "pipeline").CheckRange(at.pipeline(), 0, high));
  FORESHOCK_RETURN_IF_ERROR(Field(field, "expert").CheckRange(at.expert(), 0, high));
  return Field(field, "context").CheckRange(at.context(), 0, high);
}

// A kind this daemon does not know is a newer client's: it stays in the plan, unjudged.
absl::Status CheckPlan(const v1::Hello& hello) {
  if (hello.plan_size() > static_cast<int>(kPlanEntriesMax)) {
    return Field("plan").Refuse(absl::StrCat(hello.plan_size(), " entries"),
                                absl::StrCat("at most ", kPlanEntriesMax));
  }
  for (int i = 0; i < hello.plan_size(); ++i) {
    const v1::PlanEntry& entry = hello.plan(i);
    const Field field("plan", i);
    if (entry.kind() == v1::SUMMARY_KIND_UNSPECIFIED) {
      return Field(field, "kind").Refuse("SUMMARY_KIND_UNSPECIFIED", "a kind of summary");
    }
    if (entry.every_steps() == 0) return Field(field, "every_steps").Refuse("0", "1 or more");
    if (entry.phase_step() >= entry.every_steps()) {
      return Field(field, "phase_step")
          .Refuse(entry.phase_step(),
                  absl::StrCat("0..", entry.every_steps() - 1, " (below every_steps)"));
    }
    if (entry.layers_size() > static_cast<int>(kLayersMax)) {
      return Field(field, "layers")
          .Refuse(absl::StrCat(entry.layers_size(), " layers"),
                  absl::StrCat("at most ", kLayersMax));
    }
    for (int k = 0; k < entry.layers_size(); ++k) {
      FORESHOCK_RETURN_IF_ERROR(
          internal::CheckLayer(Field(field, "layers", k), entry.layers(k), hello.model()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(const v1::Hello& hello) {
  const Field field("labels");
  if (hello.labels().size() > kLabelsMax) {
    return field.Refuse(absl::StrCat(hello.labels().size(), " labels"),
                        absl::StrCat("at most ", kLabelsMax));
  }
  size_t bytes = 0;
  for (const auto& [key, value] : hello.labels()) bytes += key.size() + value.size();
  if (bytes > kLabelBytesMax) {
    return field.Refuse(absl::StrCat(bytes, " bytes together"),
                        absl::StrCat("at most ", kLabelBytesMax));
  }
  for (const auto& [key, value] : hello.labels()) {
    FORESHOCK_RETURN_IF_ERROR(CheckName(Field(field, "key"), key, 1, kLabelBytesMax));
    FORESHOCK_RETURN_IF_ERROR(CheckName(Field(field, "value"), value, 0, kLabelBytesMax));
  }
  return absl::OkStatus();
}

absl::Status CheckHello(const v1::Hello& hello) {
  FORESHOCK_RETURN_IF_ERROR(ValidateRunName(hello.run()));
  FORESHOCK_RETURN_IF_ERROR(CheckName(Field("launch_id"), hello.launch_id(), 1, 256));
  FORESHOCK_RETURN_IF_ERROR(CheckName(Field("client_instance"), hello.client_instance(), 1, 128));
  FORESHOCK_RETURN_IF_ERROR(CheckName(Field("client_version"), hello.client_version(), 0, 128));
  FORESHOCK_RETURN_IF_ERROR(Field("world_size").CheckRange(hello.world_size(), 1, kWorldSizeMax));
  if (hello.rank() >= hello.world_size()) {
    return Field("rank").Refuse(hello.rank(),
                                absl::StrCat("0..", hello.world_size() - 1, " (below world_size)"));
  }
  FORESHOCK_RETURN_IF_ERROR(CheckCoordinates(hello.coordinates(), hello.world_size()));
  FORESHOCK_RETURN_IF_ERROR(CheckModel(hello.model()));
  FORESHOCK_RETURN_IF_ERROR(CheckPlan(hello));
  if (hello.has_parent_attempt() && hello.parent_attempt() == 0) {
    return Field("parent_attempt").Refuse("0", "1 or more, or absent");
  }
  if (hello.has_resume_step() && (hello.resume_step() < 0 || hello.resume_step() > kStepMax)) {
    return Field("resume_step").Refuse(absl::StrCat(hello.resume_step()), "0..2^53, or absent");
  }
  return CheckLabels(hello);
}

}  // namespace

absl::Status ValidateRunName(absl::string_view run) { return CheckName(Field("run"), run, 1, 256); }

absl::Status ValidateHello(const v1::Hello& hello) {
  return base::Annotate(CheckHello(hello), "hello");
}

absl::Status ValidateGoodbye(const v1::Goodbye& goodbye) {
  if (goodbye.outcome() < v1::OUTCOME_FINISHED || goodbye.outcome() > v1::OUTCOME_PREEMPTED) {
    return Field("goodbye.outcome").Refuse(goodbye.outcome(), "FINISHED, FAILED, PREEMPTED");
  }
  return CheckText(Field("goodbye.detail"), goodbye.detail(), 4096);
}

}  // namespace foreshock::ingest
