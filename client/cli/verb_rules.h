// The verbs below `foreshock rules` that have a file of their own.
#pragma once

#include "client/cli/cli.h"

namespace foreshock::cli {

void AddRulesTest(CLI::App& rules, Program& program);
void AddRulesBacktest(CLI::App& rules, Program& program);

}  // namespace foreshock::cli
