// The selection's part of the command line, of `select` and `build`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/cli.h"
#include "proxy/select.h"

namespace foreshock::proxy {

struct SelectArguments {
  SelectOptions options;
  std::vector<std::string> calibration;  // files; they add
};

void AddSelectOptions(CLI::App& verb, SelectArguments& arguments);
absl::StatusOr<Plan> MakePlan(const Source& source, const SelectArguments& arguments);

}  // namespace foreshock::proxy
