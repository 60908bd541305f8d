// What the verbs of the program `foreshock-proxy` share. A verb is one file, verb_<name>.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/checkpoint.h"
#include "proxy/model.h"

namespace CLI {
class App;
}  // namespace CLI

namespace foreshock::proxy {

enum ExitCode : int {
  kOk = 0,
  kFinding = 1,  // the input is wrong, or the disk is
  kUsage = 2,    // the command line is wrong
};

// Printed with every proxy.
inline constexpr char kRulesOfUse[] =
    "A proxy reproduces faults of routing, precision and training procedure; it says nothing "
    "about\n"
    "memory limits, communication at full scale, or final quality. A fault that does not appear "
    "on\n"
    "it is not disproved. A fix proven on it is verified once at full size.";

struct Program {
  bool json = false;
  std::string checkpoint;  // directory
  std::string families;    // a file that adds to the table of families, or empty
  int exit_code = kOk;
};

// A checkpoint with what it is.
struct Source {
  Checkpoint checkpoint;
  Model model;
};
absl::StatusOr<Source> OpenSource(const Program& program);

// DIR, --families, --output.
void AddCommonOptions(CLI::App& verb, Program& program);
// Prints "foreshock-proxy: message" for an error; the exit code.
int Finish(const absl::Status& status);
// "foreshock-proxy: warning: ..." on stderr, each once.
void PrintWarnings(const std::vector<std::string>& warnings);

void AddInspect(CLI::App& app, Program& program);
void AddCalibrate(CLI::App& app, Program& program);
void AddSelect(CLI::App& app, Program& program);
void AddSlice(CLI::App& app, Program& program);
void AddBuild(CLI::App& app, Program& program);
void AddReport(CLI::App& app, Program& program);

}  // namespace foreshock::proxy
