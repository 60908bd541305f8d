#include "daemon/query/convert.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/model/unit_message.h"

namespace foreshock::query::internal {
namespace {

constexpr std::pair<model::QualityFlag, v1::QualityFlag> kFlags[] = {
    {model::kFlagGrid, v1::QUALITY_FLAG_GRID},
    {model::kFlagGram32, v1::QUALITY_FLAG_GRAM32},
    {model::kFlagSampled, v1::QUALITY_FLAG_SAMPLED},
    {model::kFlagFewTokens, v1::QUALITY_FLAG_FEW_TOKENS},
    {model::kFlagPartial, v1::QUALITY_FLAG_PARTIAL},
    {model::kFlagLate, v1::QUALITY_FLAG_LATE},
    {model::kFlagRebaseline, v1::QUALITY_FLAG_REBASELINE},
    {model::kFlagEval, v1::QUALITY_FLAG_EVAL},
};

template <typename Message>
void AddFlags(uint32_t flags, Message* message) {
  for (const auto& [ours, theirs] : kFlags) {
    if ((flags & ours) != 0) message->add_flags(theirs);
  }
}

}  // namespace

v1::Series ToProto(const std::string& run, const model::SeriesKey& key) {
  v1::Series series;
  series.set_run(run);
  series.set_indicator(key.indicator);
  if (key.layer != model::kNoLayer) series.set_layer(static_cast<uint32_t>(key.layer));
  series.set_unit(model::ToMessage(key.unit));
  series.set_unit_id(key.unit_id);
  series.set_unit_name(key.unit_name);
  return series;
}

v1::Step ToProto(const model::StepRow& row) {
  v1::Step step;
  step.set_step(row.step);
  step.set_attempt(row.attempt);
  step.set_time_unix_ns(row.time_unix_ns);
  step.set_tokens(row.tokens);
  step.set_ranks(row.ranks);
  step.set_skipped(row.skipped);
  step.set_partial(row.partial);
  return step;
}

void ToProto(const model::Point& point, v1::Point* message) {
  message->set_step(point.step);
  message->set_value(point.value);
  message->set_attempt(point.attempt);
  AddFlags(point.flags, message);
}

void ToProto(const store::Bucket& bucket, v1::Bucket* message) {
  message->set_first_step(bucket.first_step);
  message->set_count(bucket.count);
  message->set_min(bucket.min);
  message->set_mean(bucket.mean);
  message->set_max(bucket.max);
  message->set_last(bucket.last);
  message->set_last_step(bucket.last_step);
  message->set_attempt(bucket.attempt);
  AddFlags(bucket.flags, message);
}

absl::StatusOr<store::SeriesFilter> ToFilter(const v1::SeriesSelector& selector) {
  store::SeriesFilter filter;
  filter.indicator = selector.indicator();
  filter.unit_ids.assign(selector.unit_ids().begin(), selector.unit_ids().end());
  filter.unit_name = selector.unit_name();
  for (const int32_t layer : selector.layers()) {
    if (layer < model::kNoLayer) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", layer, ": allowed are -1 (series without a layer) and above"));
    }
    filter.layers.push_back(layer);
  }
  if (selector.unit() == v1::UNIT_UNSPECIFIED) return filter;
  filter.unit = model::FromMessage(selector.unit());
  if (!filter.unit.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unit ", selector.unit(), ": unknown to this version"));
  }
  return filter;
}

}  // namespace foreshock::query::internal
