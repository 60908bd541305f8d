// The families about the daemon itself. Internal to exporter/.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "daemon/exporter/families.h"
#include "daemon/exporter/process_stats.h"
#include "daemon/exporter/self_stats.h"

namespace foreshock::exporter::internal {

void AddSelf(const SelfStats& self, Families* families);
void AddProcess(const ProcessStats& process, Families* families);
void AddUndefined(const std::map<std::pair<std::string, std::string>, uint64_t>& undefined,
                  Families* families);

}  // namespace foreshock::exporter::internal
