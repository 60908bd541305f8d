// A series' unit as the contract says it, and back.
#pragma once

#include <optional>
#include <utility>

#include "daemon/model/series.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::model {

inline constexpr std::pair<Unit, v1::Unit> kUnitMessages[] = {
    {Unit::kNone, v1::UNIT_NONE},     {Unit::kHead, v1::UNIT_HEAD},
    {Unit::kExpert, v1::UNIT_EXPERT}, {Unit::kProjection, v1::UNIT_PROJECTION},
    {Unit::kRank, v1::UNIT_RANK},     {Unit::kTensor, v1::UNIT_TENSOR},
};

inline v1::Unit ToMessage(Unit unit) {
  for (const auto& [ours, theirs] : kUnitMessages) {
    if (ours == unit) return theirs;
  }
  return v1::UNIT_UNSPECIFIED;
}

// None for what this version does not know.
inline std::optional<Unit> FromMessage(v1::Unit unit) {
  for (const auto& [ours, theirs] : kUnitMessages) {
    if (theirs == unit) return ours;
  }
  return std::nullopt;
}

}  // namespace foreshock::model
