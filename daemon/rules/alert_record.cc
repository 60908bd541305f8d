#include "daemon/rules/alert_record.h"

#include "absl/strings/str_cat.h"

namespace foreshock::rules {

void ShowUnit(const model::SeriesKey& series, v1::Alert* out) {
  switch (series.unit) {
    case model::Unit::kHead:
      out->set_head(static_cast<uint32_t>(series.unit_id));
      break;
    case model::Unit::kRank:
      out->set_rank(static_cast<uint32_t>(series.unit_id));
      break;
    case model::Unit::kTensor:
      out->set_unit_name(series.unit_name);
      break;
    case model::Unit::kExpert:
      out->set_unit_name(absl::StrCat("expert ", series.unit_id));
      break;
    case model::Unit::kNone:
    case model::Unit::kProjection:
      break;
  }
}

void AlertRecord::Take(const Moment& moment) {
  if (!empty() && moment.distance <= distance_) return;
  if (first_step_ < 0) first_step_ = moment.step;
  if (first_step_ == moment.step) first_value_ = moment.value;
  worst_step_ = moment.step;
  value_ = moment.value;
  baseline_ = moment.baseline;
  distance_ = moment.distance;
  unit_.unit = moment.series.unit;
  unit_.unit_id = moment.series.unit_id;
  unit_.unit_name = moment.series.unit_name;
}

void AlertRecord::Worsen(const AlertRecord& other) {
  if (other.empty() || (!empty() && other.distance_ <= distance_)) return;
  const int64_t first_step = first_step_;
  const double first_value = first_value_;
  const bool began = !empty();
  *this = other;
  if (!began) return;
  first_step_ = first_step;
  first_value_ = first_value;
}

void AlertRecord::ShowIn(v1::Alert* out) const {
  if (empty()) return;
  out->set_value(value_);
  if (baseline_.has_value()) out->set_baseline(*baseline_);
  out->set_first_value(first_value_);
  out->set_worst_step(worst_step_);
  ShowUnit(unit_, out);
}

}  // namespace foreshock::rules
