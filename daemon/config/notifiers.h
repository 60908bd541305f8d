// The `notifiers` list of the configuration file.
#pragma once

#include <string>
#include <vector>

#include "daemon/notify/options.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::config {

// The log alone, when there is no list. Mistakes are recorded in the document.
std::vector<notify::NotifierOptions> ReadNotifiers(const yaml::YamlNode& list);

// As ReadNotifiers would read it; of secrets the place where they stand.
std::string FormatNotifiers(const std::vector<notify::NotifierOptions>& notifiers);

}  // namespace foreshock::config
