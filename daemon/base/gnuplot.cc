#include "daemon/base/gnuplot.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"

extern char** environ;  // of POSIX

namespace foreshock::base {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File Temporary() { return File(std::tmpfile(), &std::fclose); }

// The front of what a program has written into `file`.
std::string FirstWords(std::FILE* file) {
  std::string text(400, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return std::string(absl::StripAsciiWhitespace(text));
}

}  // namespace

absl::Status CheckPlotFile(const std::string& file) {
  if (absl::EndsWith(file, ".svg") || absl::EndsWith(file, ".png")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the plot ", file, " must end in .svg or .png"));
}

absl::Status RunGnuplot(const std::string& script) {
  const File in = Temporary();
  const File err = Temporary();
  if (in == nullptr || err == nullptr ||
      std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() ||
      std::fflush(in.get()) != 0) {
    return absl::InternalError(
        absl::StrCat("no room for a temporary file for gnuplot: ", std::strerror(errno)));
  }
  std::rewind(in.get());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(err.get()), STDERR_FILENO);
  // Named as a file, the script ends at its first error; as plain input it would go on.
  std::string name = "gnuplot";
  std::string program = "/dev/stdin";
  char* const arguments[] = {name.data(), program.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, "gnuplot", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    return absl::FailedPreconditionError(
        "gnuplot draws the plots and is not installed; on Debian: apt-get install gnuplot-nox");
  }
  if (error != 0) {
    return absl::InternalError(absl::StrCat("gnuplot cannot be started: ", std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("gnuplot failed: ", FirstWords(err.get())));
}

}  // namespace foreshock::base
