// foreshock-proxy slice DIR OUT: a checkpoint with the experts that a plan keeps.
#include "proxy/verb_slice.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "daemon/base/format_bytes.h"
#include "daemon/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proxy/assemble.h"

namespace foreshock::proxy {
namespace {

// A warning only: file systems that share or compress blocks need less than it seems.
void WarnOfSpace(const std::string& out, uint64_t bytes) {
  const std::filesystem::path parent = std::filesystem::path(out).parent_path();
  std::error_code error;
  const auto space = std::filesystem::space(parent.empty() ? "." : parent, error);
  if (error || space.available >= bytes) return;
  PrintWarnings({absl::StrCat("the proxy takes ", base::FormatBytes(bytes), ", ",
                              base::FormatBytes(space.available), " are free")});
}

void PrintCutJson(const Cut& cut, const SliceArguments& arguments, const Assembled& assembled) {
  const auto tally = [](const Tally& part) {
    return nlohmann::ordered_json{{"tensors", part.tensors}, {"bytes", part.bytes}};
  };
  const nlohmann::ordered_json answer = {{"out", arguments.out},
                                         {"dry_run", arguments.dry_run},
                                         {"bytes", cut.bytes},
                                         {"shards", cut.shards.size()},
                                         {"shards_written", assembled.shards_written},
                                         {"shards_kept", assembled.shards_kept},
                                         {"copied", tally(cut.copied)},
                                         {"cut", tally(cut.sliced)},
                                         {"renumbered", tally(cut.kept)},
                                         {"dropped", tally(cut.dropped)},
                                         {"warnings", cut.warnings}};
  cli::SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
}

void PrintCut(const Cut& cut, const SliceArguments& arguments, const Assembled& assembled) {
  using cli::Align;
  cli::Table table(
      {{"tensors"}, {"count", cli::Align::kRight}, {"source bytes", cli::Align::kRight}});
  const auto row = [&](const char* what, const Tally& part) {
    table.AddRow({what, absl::StrCat(part.tensors), base::FormatBytes(part.bytes)});
  };
  row("copied", cut.copied);
  row("cut to the kept experts", cut.sliced);
  row("of kept experts", cut.kept);
  row("dropped", cut.dropped);
  cli::SayLines(table.Render(cli::Terminal(stdout)));
  if (arguments.dry_run) {
    cli::Say("\n%s would take %s in %zu files; nothing was written\n", arguments.out,
             base::FormatBytes(cut.bytes), cut.shards.size());
    return;
  }
  const std::string before =
      assembled.shards_kept == 0
          ? ""
          : absl::StrCat(", ", assembled.shards_kept, " of them by an earlier attempt");
  cli::Say("\n%s written: %s in %zu files%s\n", arguments.out, base::FormatBytes(cut.bytes),
           cut.shards.size(), before);
  cli::SayLines(absl::StrCat("\n", kRulesOfUse, "\n"));
}

absl::Status RunSlice(const Program& program, const SliceArguments& arguments,
                      const std::string& plan_file) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadWhole(plan_file));
  FORESHOCK_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(plan_file, text));
  FORESHOCK_ASSIGN_OR_RETURN(const Source source, OpenSource(program));
  return CutAndWrite(program, source, plan, arguments);
}

}  // namespace

void AddSliceOptions(CLI::App& verb, SliceArguments& arguments) {
  verb.add_option("OUT", arguments.out, "the proxy's directory, which must not exist")->required();
  verb.add_flag("--dry-run", arguments.dry_run, "say what would be written, and write nothing");
  verb.add_flag("--drop-prediction", arguments.options.drop_prediction,
                "leave out the layers that predict further tokens");
  verb.add_flag("--gate-rescale", arguments.options.gate_rescale,
                "write each layer's gate scale into config.json, see docs/proxy.md");
}

absl::Status CutAndWrite(const Program& program, const Source& source, const Plan& plan,
                         const SliceArguments& arguments) {
  FORESHOCK_RETURN_IF_ERROR(CheckOutput(source.checkpoint, arguments.out));
  FORESHOCK_ASSIGN_OR_RETURN(const Cut cut,
                             Slice(source.checkpoint, source.model, plan, arguments.options));
  std::vector<std::string> warnings = plan.warnings;
  warnings.insert(warnings.end(), cut.warnings.begin(), cut.warnings.end());
  PrintWarnings(warnings);
  Assembled assembled;
  if (!arguments.dry_run) {
    WarnOfSpace(arguments.out, cut.bytes);
    cli::Progress progress("slice", cut.bytes);
    const auto update = [&](uint64_t done, const std::string& file) {
      progress.Update(done, absl::StrCat(base::FormatBytes(done), " of ",
                                         base::FormatBytes(cut.bytes), ", ", file));
    };
    FORESHOCK_ASSIGN_OR_RETURN(assembled,
                               Assemble(source.checkpoint, plan, cut, arguments.out, update));
  }
  if (program.json) {
    PrintCutJson(cut, arguments, assembled);
  } else {
    PrintCut(cut, arguments, assembled);
  }
  return absl::OkStatus();
}

void AddSlice(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<SliceArguments>();
  auto plan = std::make_shared<std::string>("plan.json");
  CLI::App* verb =
      app.add_subcommand("slice", "Write the checkpoint with the experts that a plan keeps");
  AddCommonOptions(*verb, program);
  AddSliceOptions(*verb, *arguments);
  verb->add_option("--plan", *plan, "what `select` wrote")->capture_default_str();
  verb->footer(
      "OUT appears when it is whole; until then it is OUT.partial, and the same command goes on\n"
      "from there. The source is only read.\n"
      "Examples:\n"
      "  foreshock-proxy slice models/olmoe models/olmoe-32 --plan=plan.json\n"
      "  foreshock-proxy slice models/olmoe models/olmoe-32 --dry-run");
  verb->callback([&program, arguments, plan] {
    program.exit_code = Finish(RunSlice(program, *arguments, *plan));
  });
}

}  // namespace foreshock::proxy
