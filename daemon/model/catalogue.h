// The indicators Foreshock knows: data, in one table (catalogue.cc). Everything that shows, stores
// or checks an indicator reads it here.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/series.h"

namespace foreshock::model {

enum class Storage : uint8_t { kF32 = 1, kF64 = 2, kI64 = 3 };

struct IndicatorInfo {
  absl::string_view id;        // "attn.delta2.entropy_ratio_l1"
  absl::string_view quantity;  // what the number measures: "nats", "ratio", "count", "1"
  Unit unit;                   // of its series
  bool per_layer;
  absl::string_view range;  // "[0, 1]"
  uint32_t version;         // of the definition; a changed formula is a new version
  Storage storage;
  // Largest relative error of the optional lossy form (store.precision: declared); 0: as stored.
  double precision;
  absl::string_view help;  // one sentence, no full stop
};

// All indicators with a fixed id, sorted by id. Scalars sent by users (train.<name>) are not in it.
absl::Span<const IndicatorInfo> Indicators();

// nullptr if unknown.
const IndicatorInfo* FindIndicator(absl::string_view id);

// How points of `id` are stored: the catalogue's word, or kF32 for train.<name>.
Storage StorageOf(absl::string_view id);

// The relative error that the optional lossy form of `id` may have; 0: kept as stored.
double PrecisionOf(absl::string_view id);

// True for catalogue ids, for train.<name> with a legal name, and for either behind "eval.".
bool IsKnownIndicator(absl::string_view id);

// Prometheus name without label: "foreshock_attn_delta2_entropy_nats".
std::string MetricName(absl::string_view id);

// "none", "head", ...
absl::string_view UnitName(Unit unit);

}  // namespace foreshock::model
