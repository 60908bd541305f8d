// foreshock completion bash|zsh|fish: a completion script made from the parser itself, so that it
// cannot fall behind.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/cli.h"
#include "client/cli/say.h"

namespace foreshock::cli {
namespace {

std::vector<const CLI::App*> Verbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

std::vector<const CLI::Option*> LongOptions(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_lnames().empty(); });
}

// One case of the shell's switch for `app` and each verb below: what may follow.
void AppendBashCases(const CLI::App& app, const std::string& path, std::string& follow,
                     std::string& known) {
  std::vector<std::string> words;
  for (const CLI::App* verb : Verbs(app)) words.push_back(verb->get_name());
  for (const CLI::Option* option : LongOptions(app)) {
    words.push_back(absl::StrCat("--", option->get_lnames().front()));
  }
  absl::StrAppend(&follow, "    '", path, "') words='", absl::StrJoin(words, " "), "' ;;\n");
  for (const CLI::App* verb : Verbs(app)) {
    const std::string below = absl::StrCat(path, " ", verb->get_name());
    absl::StrAppend(&known, known.empty() ? "" : "|", "'", below, "'");
    AppendBashCases(*verb, below, follow, known);
  }
}

std::string BashScript(const CLI::App& root) {
  std::string follow;
  std::string known;
  AppendBashCases(root, "", follow, known);
  return absl::StrCat(
      "_foreshock() {\n"
      "  local path='' word words=''\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$path $word\" in ",
      known,
      ") path=\"$path $word\" ;; esac\n"
      "  done\n"
      "  case \"$path\" in\n",
      follow,
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "}\n"
      "complete -o default -F _foreshock foreshock\n");
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

void AppendFish(const CLI::App& app, const std::string& condition, std::string& script) {
  for (const CLI::App* verb : Verbs(app)) {
    absl::StrAppend(&script, "complete -c foreshock -n ", Quoted(condition), " -a ",
                    verb->get_name(), " -d ", Quoted(verb->get_description()), "\n");
    const std::string below = absl::StrCat("__fish_seen_subcommand_from ", verb->get_name());
    for (const CLI::Option* option : LongOptions(*verb)) {
      absl::StrAppend(&script, "complete -c foreshock -n ", Quoted(below), " -l ",
                      option->get_lnames().front(), " -d ", Quoted(option->get_description()),
                      "\n");
    }
    AppendFish(*verb, below, script);
  }
}

std::string FishScript(const CLI::App& root) {
  std::string script;
  AppendFish(root, "__fish_use_subcommand", script);
  return script;
}

}  // namespace

void AddCompletion(CLI::App& app, Program& program) {
  CLI::App* completion = app.add_subcommand("completion", "Print a completion script for a shell");
  completion->require_subcommand(1);
  completion->footer(
      "Examples:\n"
      "  source <(foreshock completion bash)\n"
      "  foreshock completion fish > ~/.config/fish/completions/foreshock.fish");
  const CLI::App* root = &app;
  completion->add_subcommand("bash", "for bash")->callback([root] { SayExact(BashScript(*root)); });
  completion->add_subcommand("zsh", "for zsh, through its bash compatibility")->callback([root] {
    SayExact("#compdef foreshock\nautoload -U +X bashcompinit && bashcompinit\n");
    SayExact(BashScript(*root));
  });
  completion->add_subcommand("fish", "for fish")->callback([root] { SayExact(FishScript(*root)); });
}

}  // namespace foreshock::cli
