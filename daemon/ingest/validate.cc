#include "daemon/ingest/validate.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/tensor_check.h"

namespace foreshock::ingest {

absl::Status ValidateReport(const v1::Report& report, const IngestLimits& limits) {
  if (report.step() < 0 || report.step() > kStepMax) {
    return Field("step").Refuse(absl::StrCat(report.step()), "0..2^53");
  }
  if (report.time_unix_ns() < 0) {
    return Field("time_unix_ns").Refuse(absl::StrCat(report.time_unix_ns()), "0 (unknown) or more");
  }
  if (report.tokens() > static_cast<uint64_t>(kCountMax)) {
    return Field("tokens").Refuse(report.tokens(), "0..2^40");
  }
  if (report.phase() < v1::PHASE_UNSPECIFIED || report.phase() > v1::PHASE_EVAL) {
    return Field("phase").Refuse(report.phase(), "absent, TRAIN, EVAL");
  }
  if (report.summaries_size() > static_cast<int64_t>(limits.summaries_per_report_max)) {
    return Field("summaries")
        .Refuse(
            absl::StrCat(report.summaries_size(), " summaries"),
            absl::StrCat("at most ", limits.summaries_per_report_max, "; send several reports"));
  }
  return absl::OkStatus();
}

absl::Status ValidateSummary(const v1::Summary& summary, const SummaryContext& context,
                             NameTable* names) {
  namespace check = internal;
  const v1::ModelShape& model = context.model;
  const Field at("summaries", context.index);
  const auto field = [&](const char* name, const auto& payload) {
    return Field(at, name, Layer{payload.layer()});
  };
  switch (summary.payload_case()) {
    case v1::Summary::kScalars:
      return check::Scalars(Field(at, "scalars"), summary.scalars(), names);
    case v1::Summary::kAttentionLogits:
      return check::AttentionLogits(field("attention_logits", summary.attention_logits()),
                                    summary.attention_logits(), model);
    case v1::Summary::kQkFactors:
      return check::QkFactors(field("qk_factors", summary.qk_factors()), summary.qk_factors(),
                              model);
    case v1::Summary::kQkGram:
      return check::QkGram(field("qk_gram", summary.qk_gram()), summary.qk_gram(), model,
                           context.step);
    case v1::Summary::kRouterGates:
      return check::RouterGates(field("router_gates", summary.router_gates()),
                                summary.router_gates(), model);
    case v1::Summary::kRouterLoad:
      return check::RouterLoad(field("router_load", summary.router_load()), summary.router_load(),
                               model);
    case v1::Summary::kRouterWeights:
      return check::RouterWeights(field("router_weights", summary.router_weights()),
                                  summary.router_weights(), model);
    case v1::Summary::kRouterCoactivation:
      return check::RouterCoactivation(field("router_coactivation", summary.router_coactivation()),
                                       summary.router_coactivation(), model);
    case v1::Summary::kTensorStats:
      return check::TensorStats(Field(at, "tensor_stats"), summary.tensor_stats(), model, names);
    case v1::Summary::kEvent:
      return check::Event(Field(at, "event"), summary.event());
    case v1::Summary::kPolicyMismatch:
      return check::PolicyMismatch(Field(at, "policy_mismatch"), summary.policy_mismatch());
    case v1::Summary::PAYLOAD_NOT_SET:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      at.Path(),
      ": found no payload; allowed one that this daemon knows (unset, or the sender is "
      "newer)"));
}

absl::Status ValidateEvent(const v1::Event& event) {
  return internal::Event(Field("event"), event);
}

namespace internal {

absl::Status CheckLayer(const Field& field, uint32_t layer, const v1::ModelShape& model) {
  const bool known = model.layers() != 0;
  const uint32_t high = known ? model.layers() - 1 : kLayersMax - 1;
  if (layer <= high) return absl::OkStatus();
  return field.Refuse(layer,
                      absl::StrCat("0..", high, known ? " (model.layers of the Hello)" : ""));
}

absl::Status CheckHeads(const Field& field, const google::protobuf::RepeatedField<uint32_t>& heads,
                        const v1::ModelShape& model) {
  if (heads.empty()) return field.Refuse("no heads", "1 or more");
  for (int i = 1; i < heads.size(); ++i) {
    if (heads[i] <= heads[i - 1]) {
      return field.Refuse(absl::StrCat(heads[i], " after ", heads[i - 1]), "strictly increasing");
    }
  }
  const bool known = model.heads() != 0;
  const uint32_t high = known ? model.heads() - 1 : kHeadsMax - 1;
  const uint32_t last = heads[heads.size() - 1];
  if (last <= high) return absl::OkStatus();
  return field.Refuse(absl::StrCat("head ", last),
                      absl::StrCat("0..", high, known ? " (model.heads of the Hello)" : ""));
}

absl::Status CheckRows(const Field& field, const v1::RowRange& rows, const v1::ModelShape& model) {
  FORESHOCK_RETURN_IF_ERROR(Field(field, "total").CheckRange(rows.total(), 1, kHiddenSizeMax));
  if (model.hidden_size() != 0 && rows.total() != model.hidden_size()) {
    return Field(field, "total")
        .Refuse(rows.total(),
                absl::StrCat(model.hidden_size(), " (model.hidden_size of the Hello)"));
  }
  if (rows.count() == 0) return Field(field, "count").Refuse("0", "1 or more");
  if (uint64_t{rows.begin()} + rows.count() > rows.total()) {
    return field.Refuse(
        absl::StrCat("[", rows.begin(), ", ", uint64_t{rows.begin()} + rows.count(), ")"),
        absl::StrCat("within [0, ", rows.total(), ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckWeightDType(const Field& field, v1::DType dtype) {
  if (dtype == v1::DTYPE_UNSPECIFIED) return absl::OkStatus();
  if (model::ElementBytes(dtype) != 0 && (kFloats & DTypeBit(dtype)) != 0) return absl::OkStatus();
  return field.Refuse(DTypeName(dtype), "absent, F64, F32, F16, BF16");
}

}  // namespace internal
}  // namespace foreshock::ingest
