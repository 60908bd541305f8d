// The program `foreshock-proxy`: a smaller stand-in for an MoE checkpoint, built offline.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "client/cli/say.h"
#include "proxy/cli.h"

namespace {

// Whether the first argument is a command or asks for help; if not, says which there are. The
// parser would only say that a command is missing.
bool BeginsWithACommand(const CLI::App& app, int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "-h" || word == "--help" || word == "--version") return true;
  std::string names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_name() == word) return true;
    names += (names.empty() ? "" : ", ") + verb->get_name();
  }
  foreshock::cli::SayError(
      "foreshock-proxy: %s; commands are %s\n",
      word.empty() ? "a command is missing" : ("there is no command '" + word + "'"), names);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace foreshock::proxy;  // NOLINT
  // A limit on the size of files is an error like a full disk, not the process's end.
  std::signal(SIGXFSZ, SIG_IGN);
  // A layer's matrices are as large as those of the layer before: the memory is kept between them,
  // not given back and faulted in again. The first is the most that the library allows.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  CLI::App app(
      "Builds a proxy of a Mixture-of-Experts checkpoint: the same model with fewer experts, on\n"
      "which a fault of a large training run is reproduced for less.",
      "foreshock-proxy");
  Program program;
  AddInspect(app, program);
  AddCalibrate(app, program);
  AddSelect(app, program);
  AddSlice(app, program);
  AddBuild(app, program);
  AddReport(app, program);
  app.require_subcommand(1);
  app.set_version_flag("--version", "foreshock-proxy " FORESHOCK_VERSION);
  app.footer(
      "Every command takes --help, with examples, and --output=json.\n"
      "Exit codes: 0 ok, 1 wrong input or disk, 2 wrong usage.\n"
      "Examples:\n"
      "  foreshock-proxy inspect models/olmoe    what the checkpoint is\n"
      "  foreshock-proxy build models/olmoe models/olmoe-32 --keep=32 --calibration "
      "calib.safetensors");
  if (!BeginsWithACommand(app, argc, argv)) return kUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too, with 0.
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return program.exit_code;
}
