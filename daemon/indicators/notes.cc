#include "daemon/indicators/notes.h"

#include "daemon/model/step.h"

namespace foreshock::indicators {

void AddNonFinite(const SummariseContext& context, absl::string_view name, int32_t layer,
                  int32_t head, uint64_t count, model::StepShards* out) {
  if (count == 0) return;
  model::FindingShard* finding = out->add_findings();
  finding->set_kind(static_cast<uint32_t>(model::Finding::Kind::kNonFinite));
  finding->set_name(name.data(), name.size());
  finding->set_rank(context.sender.rank);
  finding->set_layer(layer);
  finding->set_head(head);
  finding->set_count(count);
}

void AddUndefined(absl::string_view indicator, absl::string_view reason, uint64_t count,
                  model::StepShards* out) {
  for (model::UndefinedShard& known : *out->mutable_undefined()) {
    if (known.indicator() == indicator && known.reason() == reason) {
      known.set_count(known.count() + count);
      return;
    }
  }
  model::UndefinedShard* undefined = out->add_undefined();
  undefined->set_indicator(indicator.data(), indicator.size());
  undefined->set_reason(reason.data(), reason.size());
  undefined->set_count(count);
}

}  // namespace foreshock::indicators
