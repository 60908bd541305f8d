// The checks behind `foreshock doctor`: each looks at one thing and says how to mend it.
#pragma once

#include <string>
#include <vector>

#include "client/cli/cli.h"

namespace foreshock::cli {

struct Finding {
  enum class Level { kGood, kWarning, kBad };
  std::string check;  // "health"
  Level level = Level::kGood;
  std::string detail;  // what was found
  std::string mend;    // what to do; empty when good
};

struct Diagnosis {
  std::vector<Finding> findings;
  bool reachable = true;

  bool healthy() const;  // nothing bad
};

Diagnosis Diagnose(const Settings& settings, const std::string& http_address);

}  // namespace foreshock::cli
