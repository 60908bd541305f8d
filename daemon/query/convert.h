// Values of model/ as messages of the read API, and back. Internal to query/.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/model/series.h"
#include "daemon/model/step.h"
#include "daemon/store/store.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::query::internal {

v1::Series ToProto(const std::string& run, const model::SeriesKey& key);
v1::Step ToProto(const model::StepRow& row);
void ToProto(const model::Point& point, v1::Point* message);
void ToProto(const store::Bucket& bucket, v1::Bucket* message);

// InvalidArgument for a layer under -1 or an unknown unit.
absl::StatusOr<store::SeriesFilter> ToFilter(const v1::SeriesSelector& selector);

}  // namespace foreshock::query::internal
