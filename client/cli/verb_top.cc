// foreshock top: runs, layers and alerts as they are now, on one screen.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/say.h"
#include "client/cli/screen.h"
#include "client/cli/top_data.h"
#include "client/cli/top_view.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"

namespace foreshock::cli {
namespace {

constexpr absl::Duration kRetryFirst = absl::Seconds(1);
constexpr absl::Duration kRetryLongest = absl::Seconds(30);
constexpr absl::Duration kKeyWait = absl::Milliseconds(100);
constexpr int kPauseFactor = 4;  // of the time that a look took: it may take a fifth of the daemon

struct TopArguments {
  std::string run;
  std::string http = kDefaultHttp;
  double every_s = 2;
  bool once = false;
};

// Looks at the daemon from a thread of its own, so that keys work while an answer is awaited.
class Looker {
 public:
  Looker(const Settings& settings, const TopArguments& arguments)
      : feed_(settings, arguments.http), every_(absl::Seconds(arguments.every_s)) {
    thread_ = std::thread([this] { Run(); });
  }
  // Whether an answer is awaited now.
  bool looking() {
    base::MutexLock lock(&mutex_);
    return looking_;
  }
  ~Looker() {
    {
      base::MutexLock lock(&mutex_);
      stop_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  TopNews News() {
    base::MutexLock lock(&mutex_);
    TopNews news = news_;
    news.now = base::SteadyNow();
    return news;
  }
  // Another run is looked at without delay.
  void Want(const TopWanted& wanted) {
    base::MutexLock lock(&mutex_);
    if (wanted.run != wanted_.run) {
      hurry_ = true;
      changed_.NotifyAll();
    }
    wanted_ = wanted;
  }

 private:
  void Run() {
    absl::Duration retry = kRetryFirst;
    base::MutexLock lock(&mutex_);
    while (!stop_) {
      const TopWanted wanted = wanted_;
      hurry_ = false;
      looking_ = true;
      mutex_.Unlock();
      const absl::Time start = base::SteadyNow();
      const auto data = feed_.Look(wanted);
      const absl::Time end = base::SteadyNow();
      mutex_.Lock();
      looking_ = false;
      absl::Duration pause = std::max(every_, kPauseFactor * (end - start));
      if (data.ok()) {
        news_.data = *data;
        news_.trouble.clear();
        retry = kRetryFirst;
      } else {
        news_.trouble = std::string(data.status().message());
        pause = std::exchange(retry, std::min(2 * retry, kRetryLongest));
      }
      news_.retry_at = end + pause;
      // A person who opens a run need not wait, unless nobody answers.
      while (!stop_ && !(hurry_ && data.ok()) && base::SteadyNow() < news_.retry_at) {
        changed_.WaitFor(&mutex_, news_.retry_at - base::SteadyNow());
      }
    }
  }

  TopFeed feed_;
  const absl::Duration every_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;
  TopNews news_ ABSL_GUARDED_BY(mutex_);
  TopWanted wanted_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

int Live(const Settings& settings, const TopArguments& arguments) {
  auto screen = Screen::Open();
  if (!screen.ok()) {
    SayError("foreshock top: %s\n", screen.status().message());
    return kUsage;
  }
  TopView view(arguments.run);
  Looker looker(settings, arguments);
  while (!(*screen)->interrupted()) {
    (*screen)->Draw(view.Draw(looker.News(), (*screen)->size()));
    looker.Want(view.wanted());
    const auto key = (*screen)->Key(kKeyWait);
    if (key.has_value() && !view.Press(*key)) break;
  }
  screen->reset();
  // A person who quits does not wait for a daemon that hangs.
  if (looker.looking()) std::_Exit(kOk);
  return kOk;
}

int Once(const Settings& settings, const TopArguments& arguments) {
  TopFeed feed(settings, arguments.http);
  TopView view(arguments.run);
  const auto data = feed.Look(view.wanted());
  if (!data.ok()) return Connection(settings).Report(data.status());
  const auto is_it = [&](const TopRun& run) { return run.run.name() == arguments.run; };
  if (!arguments.run.empty() && std::none_of((*data)->runs.begin(), (*data)->runs.end(), is_it)) {
    SayError("foreshock top: there is no run %s; `foreshock runs` lists them\n", arguments.run);
    return kFinding;
  }
  const Terminal out(stdout);
  const TopNews news{.data = *data, .now = base::SteadyNow()};
  const TopSize size{.rows = 0, .columns = static_cast<size_t>(out.columns())};
  for (std::string& line : view.Draw(news, size)) {
    line.erase(line.find_last_not_of(' ') + 1);
    SayLines(absl::StrCat(line, "\n"));
  }
  return kOk;
}

}  // namespace

void AddTop(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* verb = app.add_subcommand("top", "Runs, layers and alerts as they are now, live");
  verb->add_option("RUN", arguments->run, "begin with this run");
  verb->add_flag("--once", arguments->once, "print everything once, as plain text, and end");
  verb->add_option("--every", arguments->every_s, "seconds between two looks")
      ->type_name("SECONDS")
      ->check(NumberBetween(0.2, 3600))
      ->default_str("2");
  AddHttpOption(*verb, &arguments->http);
  AddServerOptions(*verb, program);
  verb->footer(
      "Keys: up and down or k and j move, enter opens a run or an alert, esc goes back, ? "
      "explains\n"
      "what is shown, q quits. A look that takes long is followed by a pause four times as long. "
      "A\n"
      "daemon that does not answer is asked again after 1, 2, 4, ... 30 s; what is shown stays.\n"
      "Needs 80 x 24. --once without a terminal prints 100 columns.\n"
      "Examples:\n"
      "  foreshock top\n"
      "  foreshock top exp-42 --every 10\n"
      "  foreshock top --once | head -20");
  verb->callback([&program, arguments] {
    program.exit_code =
        arguments->once ? Once(program.settings, *arguments) : Live(program.settings, *arguments);
  });
}

}  // namespace foreshock::cli
