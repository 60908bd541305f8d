// The families of the runs. Internal to exporter/.
#pragma once

#include "daemon/exporter/families.h"
#include "daemon/exporter/snapshot.h"

namespace foreshock::exporter::internal {

// Adds everything of `runs` in the order of importance, so that a budget cuts the rest:
// state, steps and alerts of every run; then values without units; then means of layers; then
// min and max; then p10; then single units.
void AddRuns(const std::vector<std::shared_ptr<const RunSnapshot>>& runs, Families* families);

}  // namespace foreshock::exporter::internal
