// An alert as a person wants to read it: what, where, since when, against what, and what to do.
#pragma once

#include <string>

#include "client/cli/terminal.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

// Several lines, each ended by a line feed, for SayLines.
std::string AlertBlock(const v1::Alert& alert, const Terminal& terminal);

// One line without line feed: severity, fault, rule, where and step.
std::string AlertLine(const v1::Alert& alert, const Terminal& terminal);

}  // namespace foreshock::cli
