// The `remote_write` list of the configuration file.
#pragma once

#include <string>
#include <vector>

#include "daemon/remote_write/options.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::config {

// Mistakes are recorded in the document.
std::vector<remote_write::RemoteWriteOptions> ReadRemoteWrites(const yaml::YamlNode& list);

// As ReadRemoteWrites would read it; of secrets the place where they stand.
std::string FormatRemoteWrites(const std::vector<remote_write::RemoteWriteOptions>& all);

}  // namespace foreshock::config
