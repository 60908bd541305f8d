// foreshockd: flags -> App -> wait for a signal -> stop -> exit code.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/app/app.h"
#include "daemon/app/service_manager.h"
#include "daemon/app/version.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/config/config.h"
#include "daemon/http/server.h"
#include "daemon/notify/make_notifier.h"
#include "daemon/remote_write/remote_writer.h"
#include "daemon/rpc/listen_probe.h"

namespace foreshock::app {
namespace {

enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2 };

// What the command line says; an empty value leaves the configuration file's word.
struct Flags {
  std::string config;
  std::string data_directory;
  std::string grpc_listen;
  std::string http_listen;
  std::vector<std::string> rules;
  std::string log_level;
  std::string address_file;
  bool insecure = false;
  bool check_config = false;
};

void Declare(Flags* flags, CLI::App* cli) {
  cli->set_version_flag("--version", absl::StrCat("foreshockd ", kVersion));
  cli->add_option("--config", flags->config,
                  "Configuration file (docs/config.md); SIGHUP reads it again")
      ->type_name("FILE");
  cli->add_option("--data-dir", flags->data_directory,
                  "Where the store lives; created if its parent exists")
      ->type_name("DIR");
  cli->add_option("--listen-grpc", flags->grpc_listen,
                  absl::StrCat("Address for ranks and the CLI; port 0 picks a free one [",
                               config::kDefaultGrpcListen, "]"))
      ->type_name("HOST:PORT");
  cli->add_option(
         "--listen-http", flags->http_listen,
         absl::StrCat("Address for /metrics and /api/v1 [", config::kDefaultHttpListen, "]"))
      ->type_name("HOST:PORT");
  cli->add_option("--rules", flags->rules, "Rule files; default: the installed pack")
      ->type_name("FILE");
  cli->add_option("--log-level", flags->log_level, "debug, info, warning or error [info]")
      ->type_name("LEVEL");
  cli->add_option("--address-file", flags->address_file,
                  "Write the bound addresses here, as lines grpc=HOST:PORT and http=HOST:PORT")
      ->type_name("FILE");
  cli->add_flag("--insecure", flags->insecure,
                "Listen where other machines reach it although neither TLS with tokens nor client "
                "certificates are configured: the network around it is closed");
  cli->add_flag("--check-config", flags->check_config,
                "Read configuration and rules, print what is in force, exit (0 good, 2 bad)");
  cli->footer(
      "Examples:\n"
      "  foreshockd --data-dir /var/lib/foreshock\n"
      "  foreshockd --config /etc/foreshock/foreshockd.yaml --check-config\n"
      "  foreshockd --data-dir /tmp/try --listen-grpc 127.0.0.1:0 --address-file /tmp/try.addr\n"
      "Signals: SIGTERM and SIGINT stop within shutdown_deadline, SIGHUP reloads.\n"
      "Exit codes: 0 stopped as asked, 1 failed, 2 bad usage or configuration.");
}

// The file's configuration under the command line's.
absl::StatusOr<config::Config> Load(const Flags& flags) {
  absl::StatusOr<config::Config> config =
      flags.config.empty() ? config::ParseConfig("defaults", "") : config::LoadConfig(flags.config);
  if (!config.ok()) return config;
  if (!flags.data_directory.empty()) config->store.directory = flags.data_directory;
  if (!flags.grpc_listen.empty()) config->grpc_listen = flags.grpc_listen;
  if (!flags.http_listen.empty()) config->http.listen = flags.http_listen;
  if (!flags.rules.empty()) config->rules = flags.rules;
  if (!flags.log_level.empty()) config->log_level = flags.log_level;
  if (flags.insecure) config->access.insecure = true;
  if (config->rules.empty()) config->rules = InstalledRules();
  if (config->store.directory.empty()) {
    return absl::InvalidArgumentError(
        "no data directory: give --data-dir DIR, or data_directory in the file of --config");
  }
  FORESHOCK_RETURN_IF_ERROR(base::Annotate(rpc::CheckListenAddress(config->grpc_listen), "gRPC"));
  FORESHOCK_RETURN_IF_ERROR(base::Annotate(http::CheckHttpAddress(config->http.listen), "HTTP"));
  return config;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "foreshockd: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? kUsage : kFailed;
}

int CheckConfig(const Flags& flags) {
  const absl::StatusOr<config::Config> config = Load(flags);
  if (!config.ok()) return Fail(config.status());
  const absl::StatusOr<std::shared_ptr<const rules::RuleSet>> rules =
      rules::LoadRules(config->rules);
  if (!rules.ok()) return Fail(rules.status());
  const absl::StatusOr<std::string> open = config::CheckExposure(*config);
  if (!open.ok()) return Fail(open.status());
  if (!open->empty()) std::fprintf(stderr, "foreshockd: warning: insecure: %s\n", open->c_str());
  if (const absl::Status notifiers = notify::CheckNotifiers(config->notifiers); !notifiers.ok()) {
    return Fail(notifiers);
  }
  if (const absl::Status writes = remote_write::CheckRemoteWrites(config->remote_writes);
      !writes.ok()) {
    return Fail(writes);
  }
  const size_t count = (*rules)->infos().size();
  std::printf("%s# %zu rules and signatures%s\n", config::FormatConfig(*config).c_str(), count,
              count > 0 ? ", all good" : "");
  if (count == 0) {
    std::fputs(
        "foreshockd: warning: there are no rules, so nothing will ever warn; name rule "
        "files with --rules FILE, or under rules in the file of --config\n",
        stderr);
  }
  return kOk;
}

// Signals are blocked in every thread and taken one by one here.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// The next signal, or 0 when none came in time.
int WaitForSignal(const sigset_t& signals, absl::Duration limit) {
  if (limit == absl::InfiniteDuration()) return std::max(sigwaitinfo(&signals, nullptr), 0);
  const timespec timeout = absl::ToTimespec(limit);
  return std::max(sigtimedwait(&signals, nullptr, &timeout), 0);
}

int Run(const Flags& flags, const sigset_t& signals) {
  absl::StatusOr<config::Config> config = Load(flags);
  if (!config.ok()) return Fail(config.status());
  const bool tls = config->tls.given();
  absl::StatusOr<std::unique_ptr<App>> app =
      App::Start(*std::move(config), [&flags] { return Load(flags); });
  if (!app.ok()) return Fail(app.status());
  std::printf("foreshockd %s: ranks push to %s%s, %s://%s/metrics\n", kVersion,
              (*app)->grpc_address().c_str(), tls ? " with TLS" : "", tls ? "https" : "http",
              (*app)->http_address().c_str());
  std::fflush(stdout);
  if (!flags.address_file.empty()) {
    if (absl::Status written = (*app)->WriteAddresses(flags.address_file); !written.ok()) {
      return Fail(written);
    }
  }
  const ServiceManager manager;
  manager.Ready((*app)->Summary());
  while (true) {
    const int signal = WaitForSignal(signals, manager.interval());
    if (signal == 0) {
      manager.Alive((*app)->Summary());
      continue;
    }
    if (signal == SIGHUP) {
      manager.Reloading();
      const absl::Status reloaded = (*app)->Reload();
      if (!reloaded.ok()) {
        base::LogError("app", absl::StrCat("reload failed, the old settings stay in force: ",
                                           reloaded.message()));
      }
      manager.Ready((*app)->Summary());
      continue;
    }
    manager.Stopping();
    base::LogInfo("app", "stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
    const absl::Status stopped = (*app)->Stop();
    if (stopped.ok()) return kOk;
    // A part that hangs may still use what an orderly exit would destroy.
    std::_Exit(Fail(stopped));
  }
}

int Main(int argc, char** argv) {
  const sigset_t signals = BlockSignals();
  CLI::App cli(
      "foreshockd takes what training ranks push, watches it, and warns before the loss breaks.");
  Flags flags;
  Declare(&flags, &cli);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? kOk : kUsage;
  }
  return flags.check_config ? CheckConfig(flags) : Run(flags, signals);
}

}  // namespace
}  // namespace foreshock::app

int main(int argc, char** argv) { return foreshock::app::Main(argc, argv); }
