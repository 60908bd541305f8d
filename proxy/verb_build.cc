// foreshock-proxy build DIR OUT: select and slice in one go.
#include <CLI/CLI.hpp>
#include <memory>

#include "daemon/base/status_macros.h"
#include "proxy/verb_select.h"
#include "proxy/verb_slice.h"

namespace foreshock::proxy {
namespace {

absl::Status RunBuild(const Program& program, const SelectArguments& select,
                      const SliceArguments& slice) {
  FORESHOCK_ASSIGN_OR_RETURN(const Source source, OpenSource(program));
  FORESHOCK_ASSIGN_OR_RETURN(const Plan plan, MakePlan(source, select));
  return CutAndWrite(program, source, plan, slice);
}

}  // namespace

void AddBuild(CLI::App& app, Program& program) {
  auto select = std::make_shared<SelectArguments>();
  auto slice = std::make_shared<SliceArguments>();
  CLI::App* verb = app.add_subcommand("build", "Select and slice in one go");
  AddCommonOptions(*verb, program);
  AddSliceOptions(*verb, *slice);
  AddSelectOptions(*verb, *select);
  verb->footer(
      "The plan lies in OUT as plan.json.\n"
      "Examples:\n"
      "  foreshock-proxy build models/olmoe models/olmoe-32 --keep=32 \\\n"
      "      --calibration calib.safetensors\n"
      "  foreshock-proxy build models/olmoe models/olmoe-32 --keep=32 --selector=first-k "
      "--dry-run");
  verb->callback([&program, select, slice] {
    program.exit_code = Finish(RunBuild(program, *select, *slice));
  });
}

}  // namespace foreshock::proxy
