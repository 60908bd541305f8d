// foreshock token new: a token for a client, and the entry of the daemon's tokens file for it.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/cli.h"
#include "client/cli/say.h"
#include "daemon/base/label_matcher.h"
#include "daemon/security/access.h"
#include "daemon/security/token.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

struct TokenArguments {
  std::string name;
  std::vector<std::string> roles;
  std::vector<std::string> match;
  std::string to;
};

int WrongToken(const std::string& what) {
  SayErrorLines(absl::StrCat("foreshock: ", what, "\n"));
  return kUsage;
}

// Made here and readable by its owner only; a file that is there is left alone. Empty, or the
// reason.
std::string WriteToken(const std::string& path, const std::string& token) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return absl::StrCat("--to ", path, ": ", std::strerror(errno));
  const std::string line = absl::StrCat(token, "\n");
  const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  return close(fd) == 0 && written ? "" : absl::StrCat("--to ", path, ": cannot be written");
}

std::string YamlEntry(const TokenArguments& arguments, const security::TokenHash& hash) {
  std::string entry =
      absl::StrCat("  - name: ", arguments.name, "\n    sha256: ", security::ToHex(hash),
                   "\n    roles: [", absl::StrJoin(arguments.roles, ", "), "]\n");
  if (!arguments.match.empty()) {
    // In single quotes: matchers have double ones inside.
    absl::StrAppend(
        &entry, "    match: [",
        absl::StrJoin(arguments.match, ", ",
                      [](std::string* out, const std::string& text) {
                        absl::StrAppend(out, "'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
                      }),
        "]\n");
  }
  return entry;
}

int NewTokenVerb(Output output, const TokenArguments& arguments) {
  for (const std::string& text : arguments.match) {
    const absl::StatusOr<base::LabelMatcher> matcher = base::LabelMatcher::Parse(text);
    if (!matcher.ok()) return WrongToken(std::string(matcher.status().message()));
    if (matcher->label() != "run") return WrongToken("--match: allowed is a condition on run");
  }
  const absl::StatusOr<std::string> token = security::NewToken();
  if (!token.ok()) return WrongToken(std::string(token.status().message()));
  const security::TokenHash hash = security::HashToken(*token);
  if (!arguments.to.empty()) {
    if (const std::string wrong = WriteToken(arguments.to, *token); !wrong.empty()) {
      return WrongToken(wrong);
    }
  }
  if (output == Output::kJson) {
    nlohmann::json answer = {
        {"name", arguments.name}, {"sha256", security::ToHex(hash)}, {"roles", arguments.roles}};
    if (!arguments.match.empty()) answer["match"] = arguments.match;
    if (arguments.to.empty()) answer["token"] = *token;
    SayExact(absl::StrCat(answer.dump(2), "\n"));
    return kOk;
  }
  if (arguments.to.empty()) {
    Say("# The token, shown this once; for a file that FORESHOCK_TOKEN_FILE names:\n%s\n"
        "# Its entry below `tokens:` in the file that access.tokens_file names:\n",
        *token);
  }
  SayExact(YamlEntry(arguments, hash));
  return kOk;
}

}  // namespace

void AddToken(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("token", "Make tokens for clients of the daemon");
  group->require_subcommand(1);
  auto arguments = std::make_shared<TokenArguments>();
  CLI::App* verb = group->add_subcommand(
      "new", "Draw a token; the daemon's file gets its hash, the client the token");
  verb->add_option("NAME", arguments->name, "what messages call it: letters, digits, '-', '_', '.'")
      ->required()
      ->check([](const std::string& text) -> std::string {
        const auto allowed = [](unsigned char c) {
          return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
        };
        const bool good =
            !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), allowed);
        return good ? "" : "1 to 64 letters, digits, '-', '_' or '.' are allowed";
      });
  verb->add_option("--role", arguments->roles,
                   "push, read, operate (and read) or admin (everything); may be repeated")
      ->required()
      ->check(CLI::IsMember(
          std::vector<std::string>(security::kRoleNames.begin(), security::kRoleNames.end())))
      ->type_name("ROLE");
  verb->add_option("--match", arguments->match,
                   "the runs it may push to, as run=NAME or run=~REGEX; all must hold")
      ->type_name("MATCHER");
  verb->add_option("--to", arguments->to,
                   "write the token into this new file, for its owner only, instead of showing it")
      ->type_name("FILE");
  AddOutputOption(*verb, program);
  verb->footer(
      "Nothing is sent anywhere. The daemon takes the file again when it reloads; a token whose\n"
      "entry is gone is refused from then on.\n"
      "Exit code: 0, or 2 for wrong arguments.\n"
      "Examples:\n"
      "  foreshock token new ci --role read\n"
      "  foreshock token new trainer --role push --match 'run=~\"exp-.*\"' --to trainer.token \\\n"
      "    >> /etc/foreshock/tokens.yaml");
  verb->callback([&program, arguments] {
    program.exit_code = NewTokenVerb(program.settings.output, *arguments);
  });
}

}  // namespace foreshock::cli
