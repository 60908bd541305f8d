// The program `foreshock-proxy`: a smaller stand-in for an MoE checkpoint, built offline.
#include <CLI/CLI.hpp>

#include "proxy/cli.h"

int main(int argc, char** argv) {
  using namespace foreshock::proxy;  // NOLINT
  CLI::App app(
      "Builds a proxy of a Mixture-of-Experts checkpoint: the same model with fewer experts, on\n"
      "which a fault of a large training run is reproduced for less.",
      "foreshock-proxy");
  Program program;
  AddInspect(app, program);
  AddSelect(app, program);
  app.require_subcommand(1);
  app.set_version_flag("--version", "foreshock-proxy " FORESHOCK_VERSION);
  app.footer(
      "Every command takes --help, with examples, and --output=json.\n"
      "Exit codes: 0 ok, 1 wrong input or disk, 2 wrong usage.\n"
      "Examples:\n"
      "  foreshock-proxy inspect models/olmoe    what the checkpoint is\n"
      "  foreshock-proxy select models/olmoe --keep=32 --calibration calib.safetensors");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too, with 0.
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return program.exit_code;
}
