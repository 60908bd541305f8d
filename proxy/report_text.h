// report.json for people: as Markdown, and as a picture.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace foreshock::proxy {

// The whole report as Markdown; `name` is the proxy's.
std::string ReportMarkdown(const nlohmann::ordered_json& report, const std::string& name);

// The gnuplot program that draws the layers into `file` (.svg or .png): routing decisions, use of
// the experts, and, where the report has a forward half, hidden states.
std::string ReportScript(const nlohmann::ordered_json& report, const std::string& name,
                         const std::string& file);

}  // namespace foreshock::proxy
