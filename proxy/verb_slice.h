// The cutting part of the command line, of `slice` and `build`.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "proxy/cli.h"
#include "proxy/slice.h"

namespace foreshock::proxy {

struct SliceArguments {
  SliceOptions options;
  std::string out;  // directory
  bool dry_run = false;
};

void AddSliceOptions(CLI::App& verb, SliceArguments& arguments);
// Cuts, writes unless it is a dry run, and prints what was done.
absl::Status CutAndWrite(const Program& program, const Source& source, const Plan& plan,
                         const SliceArguments& arguments);

}  // namespace foreshock::proxy
