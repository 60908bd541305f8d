#include "client/cli/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/connection.h"
#include "client/cli/daemon_metrics.h"
#include "client/cli/format.h"
#include "client/cli/http_probe.h"
#include "client/cli/tls_probe.h"
#include "client/cli/wire/health.grpc.pb.h"
#include "client/cli/wire/reflection.grpc.pb.h"
#include "daemon/base/format_bytes.h"

namespace foreshock::cli {
namespace {

using Level = Finding::Level;

// Steps and wall times of one run come from many machines; rules never read them, plots do.
constexpr absl::Duration kSkewMax = absl::Seconds(5);

Finding Good(std::string check, std::string detail) {
  return {std::move(check), Level::kGood, std::move(detail), ""};
}
Finding Bad(std::string check, std::string detail, std::string mend) {
  return {std::move(check), Level::kBad, std::move(detail), std::move(mend)};
}
Finding Warn(std::string check, std::string detail, std::string mend) {
  return {std::move(check), Level::kWarning, std::move(detail), std::move(mend)};
}

Finding CheckConnection(const Connection& daemon, const Credentials& credentials,
                        absl::Duration timeout) {
  if (!daemon.credentials().ok()) {
    return Bad("credentials", std::string(daemon.credentials().message()),
               "mend --ca-file, --cert-file, --key-file or --token-file, or the variables "
               "FORESHOCK_CA_FILE, ..._CERT_FILE, ..._KEY_FILE, ..._TOKEN_FILE");
  }
  const auto probe = [&]() -> std::optional<Finding> {
    TlsFault fault = ProbeTls(daemon.server(), credentials, timeout);
    if (fault.detail.empty()) return std::nullopt;
    return Bad("tls", std::move(fault.detail), std::move(fault.mend));
  };
  const bool tls = !credentials.ca_file.empty();
  if (tls) {
    if (auto fault = probe(); fault.has_value()) return *std::move(fault);
  }
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoNanoseconds(timeout);
  if (daemon.channel()->WaitForConnected(deadline)) {
    return Good("connection",
                absl::StrCat("gRPC answers at ", daemon.server(), tls ? ", with TLS" : ""));
  }
  if (!tls) {
    if (auto fault = probe(); fault.has_value()) return *std::move(fault);
  }
  return Bad(
      "connection",
      absl::StrCat("nothing answers gRPC at ", daemon.server(), " within ", ShortDuration(timeout)),
      "start foreshockd, or give its address with --server or FORESHOCK_SERVER; it prints "
      "the address it listens on when it starts");
}

Finding CheckHealth(const Connection& daemon) {
  const auto stub = grpc::health::v1::Health::NewStub(daemon.channel());
  grpc::health::v1::HealthCheckResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(stub->Check(context.get(), {}, &response));
  if (!status.ok()) {
    return Bad("health", absl::StrCat("grpc.health.v1.Health/Check failed: ", status.message()),
               "is the server at this address a foreshockd?");
  }
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) {
    return Good("health", "the health service says SERVING");
  }
  return Bad(
      "health",
      absl::StrCat("the health service says ",
                   grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())),
      "the daemon is starting or draining: wait, or look at its log");
}

Finding CheckServices(const Connection& daemon) {
  const auto stub = grpc::reflection::v1alpha::ServerReflection::NewStub(daemon.channel());
  const auto context = daemon.Context();
  const auto stream = stub->ServerReflectionInfo(context.get());
  grpc::reflection::v1alpha::ServerReflectionRequest request;
  request.set_list_services("*");
  grpc::reflection::v1alpha::ServerReflectionResponse response;
  const bool answered = stream->Write(request) && stream->Read(&response);
  stream->WritesDone();
  const absl::Status status = FromGrpc(stream->Finish());
  if (!answered) {
    return Bad("services", absl::StrCat("server reflection failed: ", status.message()),
               "is the server at this address a foreshockd?");
  }
  std::set<std::string> missing = {"foreshock.v1.IngestService", "foreshock.v1.QueryService",
                                   "foreshock.v1.AdminService"};
  for (const auto& service : response.list_services_response().service()) {
    missing.erase(service.name());
  }
  if (missing.empty()) return Good("services", "reflection lists ingest, query and admin");
  return Bad("services", absl::StrCat("reflection does not list ", absl::StrJoin(missing, ", ")),
             "the server speaks another version of the contract: update foreshock or foreshockd");
}

std::string MinorVersion(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, absl::MaxSplits('.', 2));
  return parts.size() < 2 ? version : absl::StrCat(parts[0], ".", parts[1]);
}

void CheckStatus(Connection& daemon, Diagnosis& diagnosis) {
  auto& findings = diagnosis.findings;
  v1::GetStatusResponse daemon_status;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.query().GetStatus(context.get(), {}, &daemon_status));
  if (absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) {
    findings.push_back(Bad(
        "token", absl::StrCat("the daemon refuses to answer: ", status.message()),
        absl::IsPermissionDenied(status)
            ? "doctor needs a token with the role read; `foreshock token new NAME --role read`"
            : "give a token that is in the daemon's tokens file with --token-file or "
              "FORESHOCK_TOKEN_FILE; after a change of that file the daemon reloads on SIGHUP"));
    return;
  }
  if (!status.ok()) {
    findings.push_back(Bad("status", absl::StrCat("GetStatus failed: ", status.message()),
                           "look at the daemon's log"));
    return;
  }
  const std::string& version = daemon_status.version();
  findings.push_back(
      MinorVersion(version) == MinorVersion(FORESHOCK_VERSION)
          ? Good("version", absl::StrCat("foreshockd ", version, ", foreshock ", FORESHOCK_VERSION))
          : Warn("version",
                 absl::StrCat("foreshockd is ", version, ", foreshock is ", FORESHOCK_VERSION),
                 "use the same minor version of both"));
  findings.push_back(
      daemon_status.store_writable()
          ? Good("store", absl::StrCat(daemon_status.data_directory(), " is writable, ",
                                       base::FormatBytes(daemon_status.store_bytes())))
          : Bad("store", absl::StrCat(daemon_status.data_directory(), " cannot be written"),
                "free space on that file system; writing resumes by itself"));
  if (daemon_status.rules_loaded() == 0) {
    findings.push_back(
        Warn("rules", "no rules are loaded: nothing will ever alert",
             "start foreshockd with --rules rules/default.yaml rules/signatures.yaml"));
  } else if (!daemon_status.config_last_reload_successful()) {
    findings.push_back(Warn("rules", "the last reload failed, the rules before it are in force",
                            "run `foreshock rules check FILE`, mend the file, reload again"));
  } else {
    findings.push_back(Good("rules", absl::StrCat(daemon_status.rules_loaded(), " loaded")));
  }
}

void CheckHttp(const std::string& address, const Credentials& credentials, absl::Duration timeout,
               Diagnosis& diagnosis) {
  auto& findings = diagnosis.findings;
  const auto answer = HttpGet(address, "/-/ready", credentials, timeout);
  if (!answer.ok()) {
    findings.push_back(Bad("http", std::string(answer.status().message()),
                           "give the daemon's HTTP address with --http or FORESHOCK_HTTP"));
    return;
  }
  findings.push_back(
      answer->status == 200
          ? Good("http", absl::StrCat(HttpUrl(credentials, address, "/-/ready"), " answers 200"))
          : Bad("http",
                absl::StrCat(HttpUrl(credentials, address, "/-/ready"), " answers ",
                             answer->status),
                "the daemon is starting or draining: wait, or look at its log"));
  if (answer->date == absl::InfinitePast()) {
    findings.push_back(Warn("clock",
                            "the server's answer carries no time, so the clocks were not "
                            "compared",
                            "is a proxy between here and the daemon?"));
    return;
  }
  // Date has whole seconds, cut off: up to one second of what is seen is no skew.
  const absl::Duration skew = absl::Now() - answer->date;
  findings.push_back(
      skew < kSkewMax && skew > -kSkewMax
          ? Good("clock", "this machine's clock and the daemon's agree to some seconds")
          : Warn("clock",
                 absl::StrCat("the clocks differ by ", ShortDuration(absl::AbsDuration(skew))),
                 "run a time service (chrony, systemd-timesyncd) on both machines"));
}

// What the daemon found wrong with the set-up of a receiver, and how to mend it.
Finding TroubleOf(const NotifierMetrics& notifier, const std::string& trouble) {
  if (trouble == "told_twice") {
    return Warn("notifiers",
                absl::StrCat(notifier.name,
                             ": Prometheus tells this Alertmanager of the same alerts, by exported "
                             "rules; ends come late, and people may be told twice"),
                "choose one way (docs/deployment.md, Who tells people): take foreshock-alerts.yaml "
                "out of Prometheus, or this notifier out of the daemon");
  }
  if (trouble == "silences_refused") {
    return Warn("notifiers",
                absl::StrCat(notifier.name,
                             ": Alertmanager does not take the daemon's silences; it may page of "
                             "silenced alerts"),
                "let the daemon use /api/v2/silences there; its log says what was answered");
  }
  return Warn("notifiers", absl::StrCat(notifier.name, ": ", trouble), "see the daemon's log");
}

// Whether people are told of alerts.
void CheckNotifiers(const DaemonMetrics& metrics, Diagnosis& diagnosis) {
  auto& findings = diagnosis.findings;
  if (metrics.notifiers.empty()) {
    findings.push_back(Warn("notifiers", "none is configured: nobody is told of alerts",
                            "name some under notifiers: in the configuration"));
  }
  const absl::Time now = absl::Now();
  for (const NotifierMetrics& notifier : metrics.notifiers) {
    const std::string text = NotifierText(notifier, now);
    const char* const mend =
        "the daemon's log says what the receiver answered; is its address or key wrong, or is it "
        "down?";
    switch (notifier.health()) {
      case NotifierMetrics::Health::kGood:
        findings.push_back(Good("notifiers", text));
        break;
      case NotifierMetrics::Health::kTrouble:
        findings.push_back(Warn("notifiers", text, mend));
        break;
      case NotifierMetrics::Health::kBad:
        findings.push_back(Bad("notifiers", text, mend));
        break;
    }
  }
  for (const NotifierMetrics& notifier : metrics.notifiers) {
    for (const std::string& trouble : notifier.troubles) {
      findings.push_back(TroubleOf(notifier, trouble));
    }
  }
  if (metrics.silences > 0) {
    findings.push_back(Good("silences", absl::StrCat(FormatCount(metrics.silences),
                                                     " in force: foreshock alerts silences")));
  }
}

void CheckMetrics(const std::string& address, const Credentials& credentials,
                  absl::Duration timeout, Diagnosis& diagnosis) {
  const auto metrics = ReadDaemonMetrics(address, credentials, timeout);
  if (!metrics.ok()) {
    diagnosis.findings.push_back(Bad("metrics", std::string(metrics.status().message()),
                                     "is the HTTP server at this address a foreshockd?"));
    return;
  }
  diagnosis.findings.push_back(
      Good("metrics", absl::StrCat(HttpUrl(credentials, address, "/metrics"), " answers")));
  CheckNotifiers(*metrics, diagnosis);
}

}  // namespace

bool Diagnosis::healthy() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.level == Level::kBad; });
}

Diagnosis Diagnose(const Settings& settings, const std::string& http_address) {
  Diagnosis diagnosis;
  Connection daemon(settings);
  diagnosis.findings.push_back(CheckConnection(daemon, settings.credentials, settings.timeout));
  if (diagnosis.findings.back().level == Level::kBad) {
    diagnosis.reachable = false;
    return diagnosis;
  }
  diagnosis.findings.push_back(CheckHealth(daemon));
  diagnosis.findings.push_back(CheckServices(daemon));
  CheckStatus(daemon, diagnosis);
  CheckHttp(http_address, settings.credentials, settings.timeout, diagnosis);
  CheckMetrics(http_address, settings.credentials, settings.timeout, diagnosis);
  return diagnosis;
}

}  // namespace foreshock::cli
